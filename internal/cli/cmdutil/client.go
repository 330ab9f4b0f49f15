package cmdutil

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// kubectl's limits of requests per second: a command ends before it disturbs others.
const (
	clientQPS   = 50
	clientBurst = 300
)

// ConnectionFlag annotates the flags that "dra-steward options" lists instead of each
// command.
const ConnectionFlag = "dra-steward.io/connection"

// A Client connects a command to a cluster, by the flags and rules of kubectl: --kubeconfig,
// else the files of $KUBECONFIG, else ~/.kube/config, else the cluster of this pod. It is
// ready after AddFlags.
//
// The flags are those of client-go, on which kubectl's genericclioptions are a layer.
type Client struct {
	*connection
}

// A connection is what the copies of a Client share.
type connection struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	verbose   int
	config    *rest.Config
	// login is closed when a credential plugin has ended, or there is none.
	login chan struct{}
	// progress is the newest of the command.
	progress atomic.Pointer[Progress]
}

// AddFlags adds kubectl's flags to a command. A command whose --namespace has another
// meaning has that flag already.
func (c *Client) AddFlags(command *cobra.Command) {
	c.connection = &connection{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	c.rules.Warner = func(error) {} // found returns the error
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.AuthOverrideFlags.Username.LongName, names.AuthOverrideFlags.Password.LongName = "", ""
	if command.Flags().Lookup("namespace") != nil {
		names.ContextOverrideFlags.Namespace.LongName = ""
	}
	flags := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	flags.StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "")
	clientcmd.BindOverrideFlags(&c.overrides, flags, names)
	flags.IntVarP(&c.verbose, "v", "v", 0, "verbosity of the log of the Kubernetes client; 6 logs the API requests")
	shown := map[string]string{
		"kubeconfig": "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the cluster of this pod)",
		"context":    "context of the kubeconfig (default: its current context)",
		"namespace":  "namespace (default: that of the context)",
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if usage := shown[f.Name]; usage != "" {
			f.Usage = usage
			return
		}
		f.Annotations = map[string][]string{ConnectionFlag: {"true"}}
	})
	command.Flags().AddFlagSet(flags)
	c.completeKubeconfig(command)
}

// completeKubeconfig offers the names in the kubeconfig.
func (c *Client) completeKubeconfig(command *cobra.Command) {
	for flag, names := range map[string]func(api.Config) []string{
		"context": func(raw api.Config) []string { return slices.Sorted(maps.Keys(raw.Contexts)) },
		"cluster": func(raw api.Config) []string { return slices.Sorted(maps.Keys(raw.Clusters)) },
		"user":    func(raw api.Config) []string { return slices.Sorted(maps.Keys(raw.AuthInfos)) },
	} {
		CompleteWith(command, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			raw, err := c.loader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return names(raw), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

func (c *Client) loader() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &c.overrides)
}

// Config returns how to reach the cluster. Clients made from it print the warnings of the
// API server once each, and report within 2 s that no API server accepts the connection, within 4 s
// that it does not answer, and that it asks to wait for longer than that.
func (c *Client) Config(streams Streams) (*rest.Config, error) {
	if c.config != nil {
		return rest.CopyConfig(c.config), nil
	}
	if err := c.logTo(streams.Err); err != nil {
		return nil, err
	}
	config, err := c.loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("--kubeconfig: no kubeconfig found, and this process does not run in a pod: set --kubeconfig or $KUBECONFIG")
	}
	if err != nil {
		return nil, c.kubeconfigError(err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.WarningHandler = warnings{rest.NewWarningWriter(streams.Err, rest.WarningWriterOptions{Deduplicate: true})}
	config.Dial = (&dialer{encrypted: encrypted(config)}).dial
	tell := c.tellBusy(streams.Err)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return busy{next, tell} })
	c.login = make(chan struct{})
	if loggedIn := sync.OnceFunc(func() { close(c.login) }); config.ExecProvider == nil {
		loggedIn()
	} else {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return requests{next, loggedIn} })
	}
	c.config = config
	return rest.CopyConfig(config), nil
}

// Progress is that of the streams for a command that connects. It begins when the credentials are at hand: a
// plugin can ask questions on the terminal.
func (c *Client) Progress(streams Streams, text string) *Progress {
	p := streams.progress(text, c.login)
	c.progress.Store(p)
	return p
}

// tellBusy returns what shows that the API server asks to wait: on the terminal each time, on out the first time.
func (c *Client) tellBusy(out io.Writer) func(wait time.Duration) {
	var once sync.Once
	return func(wait time.Duration) {
		p := c.progress.Load()
		once.Do(func() {
			p.Clear()
			printable.Printf(out, "Warning: the API server has too many requests of this user and asks to wait for %s\n", wait)
		})
		p.Say("waiting for %s: the API server has too many requests", wait)
	}
}

// busy tells of answers that ask to wait for so long that a person notices. client-go waits as long as it is asked to.
type busy struct {
	http.RoundTripper
	tell func(wait time.Duration)
}

func (b busy) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusTooManyRequests {
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if wait := time.Duration(seconds) * time.Second; err == nil && wait > progressDelay {
			b.tell(wait)
		}
	}
	return response, err
}

// requests tells of each request, for which the credentials are at hand: client-go asks a credential plugin
// before it calls what Wrap adds.
type requests struct {
	http.RoundTripper
	begun func()
}

func (r requests) RoundTrip(request *http.Request) (*http.Response, error) {
	r.begun()
	return r.RoundTripper.RoundTrip(request)
}

// kubeconfigError says where a wrong configuration of the connection comes from: from a flag that was typed and that
// the error is about, or else from the kubeconfig.
func (c *Client) kubeconfigError(err error) error {
	text := strings.TrimPrefix(err.Error(), "invalid configuration: ")
	for _, typed := range []struct{ flag, value, about string }{
		{"context", c.overrides.CurrentContext, "context "},
		{"cluster", c.overrides.Context.Cluster, "cluster "},
		{"user", c.overrides.Context.AuthInfo, "auth info "},
		{"request-timeout", c.overrides.Timeout, "timeout"},
		{"certificate-authority", c.overrides.ClusterInfo.CertificateAuthority, "certificate-authority"},
		{"client-certificate", c.overrides.AuthInfo.ClientCertificate, "client-cert"},
		{"client-key", c.overrides.AuthInfo.ClientKey, "client-key"},
		{"server", c.overrides.ClusterInfo.Server, "host"},
	} {
		if typed.value == "" || !strings.Contains(strings.ToLower(text), typed.about) {
			continue
		}
		hint := ""
		if typed.flag == "context" {
			raw, _ := c.loader().RawConfig() // its error is err
			hint = manifest.DidYouMean(typed.value, slices.Sorted(maps.Keys(raw.Contexts)))
		}
		return fmt.Errorf("--%s %s: %s%s", typed.flag, typed.value, text, hint)
	}
	return fmt.Errorf("--kubeconfig: %s", text)
}

// Namespace returns the one of --namespace, else that of the context, else "default".
func (c *Client) Namespace() (string, error) {
	namespace, _, err := c.loader().Namespace()
	if clientcmd.IsEmptyConfig(err) {
		return metav1.NamespaceDefault, nil
	}
	if err != nil {
		return "", c.kubeconfigError(err)
	}
	return namespace, nil
}

// logTo writes the log of client-go to out with -v, and drops it without: what users need to
// know is in errors and warnings.
func (c *Client) logTo(out io.Writer) error {
	log := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(log)
	if c.verbose == 0 {
		out = io.Discard
	}
	klog.SetOutput(out)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "v": strconv.Itoa(c.verbose)} {
		if err := log.Set(name, value); err != nil {
			return fmt.Errorf("--v: %w", err)
		}
	}
	return nil
}
