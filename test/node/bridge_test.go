package node

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"k8s.io/client-go/tools/clientcmd"
)

// A bridge joins the network namespaces of a fleet. At its address, the kubelets reach the API server.
const (
	bridgeName    = "fleet0"
	bridgeAddress = "198.51.100.1"
)

func fleetAddress(i int) string { return fmt.Sprint("198.51.100.", 11+i) }

// newNetworks makes the bridge, and network namespaces with an interface on it each. They last as long as this
// process: with one of them, the end of connections would be lost that a kubelet has to the API server, which
// waits for them when it stops.
func newNetworks(t testing.TB) (networks []*os.File) {
	t.Helper()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := netlink.LinkAdd(bridge); err != nil {
		t.Fatalf("bridge %s: %v", bridgeName, err)
	}
	own, err := netlink.NewHandle()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := setUp(own, bridge, bridgeAddress); err != nil {
		t.Fatal(err)
	}
	for i := range fleetSize {
		space, err := newNamespace()
		if err != nil {
			t.Fatalf("a network namespace: %v", err)
		}
		if err := join(bridge, space, i); err != nil {
			t.Fatalf("the network of %s: %v", fleetAddress(i), err)
		}
		networks = append(networks, os.NewFile(uintptr(space), "network"))
	}
	return networks
}

// join gives a namespace an interface on the bridge.
func join(bridge *netlink.Bridge, space netns.NsHandle, i int) error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint(bridgeName, "-", i), MasterIndex: bridge.Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(space)}
	if err := netlink.LinkAdd(veth); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		return err
	}
	return furnishNetwork(space, fleetAddress(i))
}

// newNamespace makes a network namespace. The thread returns to its own: its end would be that of the processes
// which it has started.
func newNamespace() (netns.NsHandle, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		return -1, err
	}
	defer own.Close()
	space, err := netns.New()
	return space, errors.Join(err, netns.Set(own))
}

// furnishNetwork gives the interfaces of a namespace their addresses, and a route to the bridge.
func furnishNetwork(space netns.NsHandle, address string) error {
	within, err := netlink.NewHandleAt(space)
	if err != nil {
		return err
	}
	defer within.Close()
	lo, err := within.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := within.LinkSetUp(lo); err != nil {
		return err
	}
	eth0, err := within.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := setUp(within, eth0, address); err != nil {
		return err
	}
	return within.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: net.ParseIP(bridgeAddress)})
}

func setUp(within *netlink.Handle, link netlink.Link, address string) error {
	parsed, err := netlink.ParseAddr(address + "/24")
	if err != nil {
		return err
	}
	if err := within.AddrAdd(link, parsed); err != nil {
		return err
	}
	return within.LinkSetUp(link)
}

// throughBridge lets a kubeconfig lead to the API server at the address of the bridge. Its certificate is
// for the address that the kubeconfig has.
func throughBridge(kubeconfig string) error {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return err
	}
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return err
		}
		cluster.TLSServerName = server.Hostname()
		server.Host = net.JoinHostPort(bridgeAddress, server.Port())
		cluster.Server = server.String()
	}
	return clientcmd.WriteToFile(*config, kubeconfig)
}
