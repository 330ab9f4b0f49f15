// Package cdi reports whether a container runtime resolves and applies a CDI device
// id: the name that a DRA driver or a device plugin (KEP-4009) hands to the kubelet,
// and the kubelet, unread, to the runtime.
//
// A running container does not notice when the specification behind its id goes. Its
// next start fails with "unresolvable CDI devices", and the kubelet does not ask the
// driver for the file again while the sandbox of the pod lives. [Read] scans the
// directories as the runtime would, and [Registry.Check] looks at one id:
//
//	registry, err := cdi.Read(cdi.Options{HostRoot: "/host"})
//	result := registry.Check("vendor.example/gpu=0")
//
// Names and specifications are parsed, and device nodes filled in, by the CDI library
// (tags.cncf.io/container-device-interface), which containerd and CRI-O use. Beyond
// it, mounts and hooks are looked for: the library passes those that are absent, and
// the OCI runtime fails. All paths are those of the host, below Options.HostRoot;
// symbolic links are followed inside of it only.
//
// What cannot be seen from files: whether CDI is switched on in the runtime, which
// directories it is set to, and network devices.
package cdi
