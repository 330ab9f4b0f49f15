package measure

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/scale"
)

// commands are those that read a whole cluster, with their arguments and the target of their own
// work.
func commands() map[string][]string {
	return map[string][]string{
		"devices": {"devices"},
		"why":     {"why", "claim/waits", "--namespace=" + scale.NamespaceName(0)},
		"impact":  {"impact", scale.GPUDriver, scale.GPUDriver + "/broken:NoExecute"},
		"report":  {"report"},
		"audit":   {"audit"},
	}
}

// measureCommands runs commands of the real program, and by turns a process that only lists what they
// list.
func measureCommands(t *testing.T, cluster *envtest.Cluster, program string, clients kubernetes.Interface, s *step) {
	t.Helper()
	waiting := claim("")
	waiting.Name = "waits"
	_, err := clients.ResourceV1().ResourceClaims(scale.NamespaceName(0)).Create(t.Context(), waiting, metav1.CreateOptions{})
	must(t, err)
	kubeconfig, err := cluster.UserKubeconfig(reader, "system:masters")
	must(t, err)
	for _, name := range []string{"devices", "why", "impact", "report", "audit"} {
		measureCommand(t, cluster, program, kubeconfig, name, s)
	}
}

func measureCommand(t *testing.T, cluster *envtest.Cluster, program, kubeconfig, name string, s *step) {
	t.Helper()
	once := func() ran {
		command := exec.Command(program, append(slices.Clone(commands()[name]), "--kubeconfig="+kubeconfig)...)
		command.Env = append(os.Environ(), "HOME="+t.TempDir())
		return run(t, func(code int) bool { return code == 0 || code == 1 }, command)
	}
	_, offset := since(t, cluster.AuditLog(), 0)
	once()
	var asked audited
	// The log is written when a request has been answered.
	<-time.After(200 * time.Millisecond)
	asked, _ = since(t, cluster.AuditLog(), offset)
	if twice := asked.twice(); len(twice) > 0 {
		t.Logf("%s lists twice: %s", name, strings.Join(twice, ", "))
	}
	t.Logf("%s: %d requests, lists of %s", name, asked.requests, strings.Join(asked.paths, " "))
	var bare, whole []time.Duration
	var most, compute float64
	for range rounds() {
		took, _ := lists(t, kubeconfig, asked.paths)
		one := once()
		bare, whole = append(bare, took), append(whole, one.wall)
		most, compute = max(most, one.peak), max(compute, one.computed.Seconds())
	}
	listed, ours := median(bare).Seconds(), median(whole).Seconds()
	own := "< 1 s"
	if name == "report" || name == "audit" {
		own = "< 10 s"
	}
	s.addGrowing(name+": wall", ours, "s", "")
	s.addGrowing(name+": bare lists of the same objects", listed, "s", "")
	s.add(name+": of the bare lists", ours/listed, "", "≤ 1.2")
	s.addGrowing(name+": without the lists", ours-listed, "s", own)
	s.addGrowing(name+": CPU", compute, "s", "")
	s.addGrowing(name+": peak memory", most, "MiB", "< 500 MiB")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
