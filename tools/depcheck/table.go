package depcheck

// Root is the path of the root module.
const Root = "github.com/dra-steward/dra-steward"

// What pure packages never reach, however far away.
const (
	clientGo          = "k8s.io/client-go"
	controllerRuntime = "sigs.k8s.io/controller-runtime"
	opa               = "github.com/open-policy-agent/opa"
)

// A Package is what the architecture says about one package.
type Package struct {
	// Floor is its height. It imports what is on lower floors.
	Floor int
	// Peers are packages of the same floor that it may import all the same.
	Peers []string
	// Importers are the only packages that may import it; none means all above.
	Importers []string
	// Never are import paths that it must not reach, not even through others.
	Never []string
	// Pure packages are told the time, they do not ask for it.
	Pure bool
}

// Packages is the architecture of the root module, by path below Root. Floors:
//
//	5  programs              cmd, cli, server, manager, nodeagent
//	4  doing                 webhook, evictor, controllers, podresources, clusterread, lint
//	3  deciding over more    review, usage on tracker, why, guard's estimates, rulebook, fix
//	2  deciding on one       validate, mutate, policy, patch, toleration, parameters, config, manifest
//	1  saying                api, policies, charts, cdi, guard
var Packages = map[string]Package{
	"cmd/dra-steward": {Floor: 5, Peers: []string{"internal/cli", "internal/cli/cmdutil"}},
	// The list of all commands, and nothing else, knows every program.
	"internal/cli": {Floor: 5, Peers: []string{"internal/cli/capacity", "internal/cli/cmdutil", "internal/cli/config", "internal/cli/console", "internal/cli/device", "internal/cli/drain", "internal/cli/lint",
		"internal/cli/node", "internal/cli/policy", "internal/cli/report", "internal/cli/roll", "internal/cli/uninstall", "internal/cli/whatif", "internal/manager", "internal/nodeagent", "internal/server"}},
	"internal/cli/cmdutil":  {Floor: 4, Peers: []string{"internal/rules/policyload"}},
	"internal/cli/capacity": {Floor: 5},
	"internal/cli/config":   {Floor: 5},
	"internal/cli/console":  {Floor: 5, Peers: []string{"internal/cli/report", "internal/nodeagent"}},
	"internal/cli/device":   {Floor: 5},
	"internal/cli/examples": {Floor: 1},
	"internal/cli/drain":    {Floor: 5},
	"internal/cli/lint":     {Floor: 5},
	"internal/cli/node":     {Floor: 5, Peers: []string{"internal/nodeagent"}},
	"internal/cli/policy":   {Floor: 5},
	// It reads the flags of a running controller as that reads them.
	"internal/cli/report": {Floor: 5, Peers: []string{"internal/manager"}},
	// It deletes what the controller keeps, by the names that it gives.
	"internal/cli/uninstall": {Floor: 5, Peers: []string{"internal/manager"}},
	"internal/cli/roll":      {Floor: 5},
	"internal/cli/whatif":    {Floor: 5},
	"internal/manager":       {Floor: 5},
	"internal/server":        {Floor: 5},
	"internal/nodeagent":     {Floor: 5},

	"webhook":          {Floor: 4, Never: []string{Root + "/pkg/usage", Root + "/pkg/tracker"}},
	"pkg/evictor":      {Floor: 4, Peers: []string{"internal/devices/taints"}},
	"pkg/podresources": {Floor: 4},

	"internal/controllers":                   {Floor: 4, Importers: []string{"internal/manager"}, Peers: []string{"internal/devices/taints"}, Pure: true},
	"internal/controllers/capacitymetrics":   {Floor: 4, Importers: []string{"internal/manager"}, Never: []string{controllerRuntime, opa}},
	"internal/controllers/certificate":       {Floor: 4, Importers: []string{"internal/manager"}, Never: []string{controllerRuntime}},
	"internal/controllers/devicehistory":     {Floor: 4, Importers: []string{"internal/manager"}, Peers: []string{"internal/devices/taints"}, Never: []string{controllerRuntime, opa}},
	"internal/controllers/devicedrain":       {Floor: 4, Importers: []string{"internal/manager"}},
	"internal/controllers/extendedclaims":    {Floor: 4, Importers: []string{"internal/manager"}, Never: []string{controllerRuntime, opa}},
	"internal/controllers/extendedresources": {Floor: 4, Importers: []string{"internal/manager"}, Never: []string{controllerRuntime, opa}},
	"internal/controllers/materialize":       {Floor: 4, Importers: []string{"internal/manager"}, Never: []string{controllerRuntime}},
	"internal/controllers/patchstatus":       {Floor: 4, Importers: []string{"internal/manager"}},
	"internal/controllers/policystatus":      {Floor: 4, Importers: []string{"internal/manager"}, Never: []string{controllerRuntime}},
	"internal/controllers/devicereaction":    {Floor: 4, Importers: []string{"internal/manager"}, Never: []string{controllerRuntime, opa}},
	"internal/controllers/deviceroll":        {Floor: 4, Importers: []string{"internal/manager"}, Never: []string{controllerRuntime, opa}},
	"internal/controllers/rulebegin":         {Floor: 4, Importers: []string{"internal/manager"}, Never: []string{controllerRuntime, opa}},
	"internal/controllers/ruleexpiry":        {Floor: 4, Importers: []string{"internal/manager"}, Peers: []string{"internal/devices/taints"}},

	"internal/cluster/clusterdata":  {Floor: 4, Never: []string{controllerRuntime}},
	"internal/cluster/clusterread":  {Floor: 4, Peers: []string{"internal/cli/cmdutil", "internal/devices/taints"}},
	"internal/cluster/clusterwrite": {Floor: 4, Peers: []string{"internal/cluster/clusterread", "internal/devices/taints"}},
	"internal/rules/policyload":     {Floor: 4},
	"internal/guard/impact":         {Floor: 4},
	"internal/serving/daemon":       {Floor: 4},
	"internal/devices/taints":       {Floor: 4, Pure: true},
	"internal/cluster/ownclient":    {Floor: 2},
	"internal/cluster/fleet":        {Floor: 4, Peers: []string{"internal/devices/taints"}, Pure: true},
	"internal/console":              {Floor: 4, Peers: []string{"internal/cli/cmdutil", "internal/cluster/clusterwrite", "internal/cluster/fleet", "internal/report", "internal/devices/taints"}},
	"internal/lint":                 {Floor: 4, Never: []string{controllerRuntime}},
	"internal/audit":                {Floor: 4, Peers: []string{"internal/lint"}, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/report":               {Floor: 4, Peers: []string{"internal/audit", "internal/devices/taints", "pkg/evictor"}, Never: []string{controllerRuntime}, Pure: true},

	"internal/devices/slicemerge":     {Floor: 3, Peers: []string{"pkg/tracker"}, Never: []string{controllerRuntime, opa}},
	"internal/rules/policyoutcome":    {Floor: 3, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"pkg/review":                      {Floor: 3, Never: []string{controllerRuntime}, Pure: true},
	"pkg/usage":                       {Floor: 3, Peers: []string{"pkg/tracker"}},
	"pkg/tracker":                     {Floor: 3},
	"internal/cluster/health":         {Floor: 3, Peers: []string{"pkg/usage"}, Never: []string{controllerRuntime, opa}, Pure: true},
	"internal/drain":                  {Floor: 3, Peers: []string{"internal/devices/siblings", "internal/targets", "pkg/tracker", "pkg/usage"}, Never: []string{controllerRuntime, opa}, Pure: true},
	"internal/reaction":               {Floor: 3, Peers: []string{"internal/drain", "internal/cluster/health", "internal/devices/siblings", "pkg/tracker", "pkg/usage"}, Never: []string{controllerRuntime, opa}, Pure: true},
	"internal/roll":                   {Floor: 3, Peers: []string{"internal/drain", "pkg/tracker", "pkg/usage"}, Never: []string{controllerRuntime, opa}, Pure: true},
	"internal/targets":                {Floor: 3, Peers: []string{"pkg/usage"}, Never: []string{controllerRuntime, opa}, Pure: true},
	"internal/devices/siblings":       {Floor: 3, Peers: []string{"pkg/usage"}, Never: []string{controllerRuntime, opa}, Pure: true},
	"internal/foresight/capacity":     {Floor: 3, Peers: []string{"internal/foresight/placement", "pkg/tracker", "pkg/usage"}, Never: []string{controllerRuntime, opa}, Pure: true},
	"internal/foresight/placement":    {Floor: 3, Peers: []string{"pkg/tracker", "pkg/usage"}, Never: []string{controllerRuntime, opa}, Pure: true},
	"internal/foresight/why":          {Floor: 3, Peers: []string{"internal/foresight/placement", "pkg/tracker", "pkg/usage"}, Pure: true},
	"internal/rules/admissionpolicy":  {Floor: 3, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/kubernetes/servergates": {Floor: 3, Never: []string{controllerRuntime, opa}},
	"internal/kubernetes/gates":       {Floor: 2, Peers: []string{"pkg/validate/apiserver"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	// Its library is that of Helm, which imports client-go.
	"internal/manifest/helmchart": {Floor: 3, Importers: []string{"internal/cli/lint"}, Never: []string{controllerRuntime, opa}},
	"internal/cluster/existing":   {Floor: 3, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/lint/fix":           {Floor: 3, Never: []string{clientGo, controllerRuntime}},
	"internal/rules/rulebook":     {Floor: 3, Never: []string{clientGo, controllerRuntime}, Pure: true},

	"pkg/validate/apiserver":         {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/validate/internal/form":     {Floor: 1, Peers: []string{"pkg/validate/internal/walk"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/validate/internal/walk":     {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/validate":                   {Floor: 2, Peers: []string{"pkg/patch", "pkg/validate/apiserver"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/mutate":                     {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/patch":                      {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/toleration":                 {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/policy":                     {Floor: 2, Peers: []string{"pkg/validate"}, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/parameters":            {Floor: 2, Peers: []string{"pkg/validate"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/config":                {Floor: 2, Peers: []string{"internal/manifest"}, Never: []string{clientGo, controllerRuntime}},
	"internal/foresight/podtemplate": {Floor: 2, Peers: []string{"internal/manifest"}, Never: []string{clientGo, controllerRuntime, opa}},
	"internal/manifest":              {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}},

	"internal/history": {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},

	// What a rewritten slice remembers of its driver's values. The tracker and the
	// scheduler read it.
	"pkg/patch/record": {Floor: 2, Peers: []string{"pkg/patch"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},

	"api/v1alpha1":                {Floor: 1, Peers: []string{"internal/cost/quantity"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"policies":                    {Floor: 1, Importers: []string{"pkg/policy"}},
	"policies/parameters":         {Floor: 1, Importers: []string{"internal/parameters"}},
	"charts":                      {Floor: 1},
	"pkg/cdi":                     {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/podresources/checkpoint": {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},

	"internal/serving/caller":              {Floor: 1, Pure: true},
	"internal/serving/metric":              {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}},
	"internal/rules/mode":                  {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/controller/lease":            {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/guard":                       {Floor: 1, Peers: []string{"internal/text/plural", "api/v1alpha1"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/kubernetes/extendedresource": {Floor: 1, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/text/printable":              {Floor: 1, Pure: true},
	"internal/serving/selfsigned":          {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}},
	"internal/memory/sizedcache":           {Floor: 1, Pure: true},
	"internal/memory/packed":               {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/text/plural":                 {Floor: 1, Pure: true},
	"internal/kubernetes/faults":           {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/controller/reconcile":        {Floor: 2, Never: []string{controllerRuntime, opa}},
	"internal/serving/version":             {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/serving/fairqueue":           {Floor: 1, Never: []string{clientGo, controllerRuntime}},
	"internal/parameters/schemaregexp":     {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/rules/ruleid":                {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/devices/remerge":             {Floor: 1, Importers: []string{"internal/cluster/clusterread", "pkg/tracker"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/text/natural":                {Floor: 1, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/memory/compact":              {Floor: 1, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/kubernetes/newer":            {Floor: 1, Peers: []string{"api/v1alpha1", "internal/cost/quantity"}, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/guard/windows":               {Floor: 1, Peers: []string{"api/v1alpha1"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	// What compiles or evaluates CEL selectors does it with this package.
	"internal/cost/selector":         {Floor: 1, Peers: []string{"internal/cost/quantity", "internal/memory/sizedcache"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/cost/selector/hostile": {Floor: 1, Importers: []string{"(tests)"}},
	"internal/cost/quantity":         {Floor: 1, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/controller/condition":  {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/testsupport/corpus":    {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/manifest/example":      {Floor: 1, Never: []string{clientGo, controllerRuntime}, Pure: true},

	"internal/serving/connections": {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}},

	// For tests and for the build; no package that ships imports them.
	"internal/testsupport/freeport":   {Floor: 1, Importers: []string{"(tests)"}},
	"internal/testsupport/testrecord": {Floor: 1, Importers: []string{"(tests)"}},
	"internal/testsupport/testaudit":  {Floor: 1, Importers: []string{"(tests)"}},
	"internal/testsupport/testmemory": {Floor: 1, Importers: []string{"(tests)", "internal/testsupport/testattack"}},
	"internal/testsupport/testattack": {Floor: 2, Importers: []string{"(tests)"}},
	"tools/apicheck":                  {Floor: 1, Importers: []string{"(tests)"}},
	"tools/chartdoc":                  {Floor: 4, Importers: []string{"(tests)"}},
	"tools/depcheck":                  {Floor: 1, Importers: []string{"(tests)"}},
	"tools/citest":                    {Floor: 1, Importers: []string{"(tests)"}},
	"tools/doctest":                   {Floor: 1, Importers: []string{"(tests)"}},
	"tools/build":                     {Floor: 1, Importers: []string{"(tests)"}}, // the module image ships what it builds
	"tools/mutants":                   {Floor: 1, Importers: []string{"(tests)"}},
	"tools/krew":                      {Floor: 1, Importers: []string{"(tests)"}}, // the module image fills it in
	// The modules test/envtest and test/oracle build Kubernetes with it.
	"tools/modules":     {Floor: 1, Importers: []string{"(tests)", "tools/modules/set"}},
	"tools/modules/set": {Floor: 2, Importers: []string{"(tests)"}},
	"tools/kubemodule":  {Floor: 1, Importers: []string{"(tests)"}},
}

// PureFiles decide in packages that also act: they import none of what Never names, and
// they are given the time.
var PureFiles = map[string][]string{
	"internal/controllers/certificate":   {"decide.go"},
	"internal/controllers/patchstatus":   {"decide.go"},
	"internal/controllers/devicehistory": {"observe.go"},
	"pkg/evictor":                        {"decide.go", "window.go"},
}

// Modules are the own modules next to the root one, by folder, each with the
// packages of ours that it imports outside its tests. "..." allows all of them.
var Modules = map[string][]string{
	"scheduler":          {"api/v1alpha1", "pkg/patch/record", "pkg/patch", "pkg/tracker"},
	"image":              {"internal/cli", "internal/cli/cmdutil", "tools/build", "tools/krew"},
	"test/alerts":        {},
	"test/certmanager":   {},
	"test/chart":         {"api/v1alpha1", "charts", "internal/cli", "internal/cli/cmdutil"},
	"test/console":       {},
	"test/envtest":       {"api/v1alpha1", "charts", "internal/cli", "internal/cli/cmdutil", "internal/testsupport/freeport", "internal/testsupport/testmemory", "tools/build", "tools/kubemodule", "test/chart", "test/chart/controller", "webhook"},
	"test/evictor":       {},
	"test/node":          {"..."},
	"test/oracle":        {"..."},
	"test/scale":         {"api/v1alpha1"},
	"test/schedulerperf": {},
	"test/signing":       {},
	"test/tracker":       {},
	"tools/prose":        {},
	"tools/release":      {},
	"tools/site":         {},
}

// NotRequired are modules that the root go.mod never names: who imports one of our
// packages must not have to download them.
var NotRequired = []string{"k8s.io/kubernetes", "helm.sh/helm/v3"}

// The sizes that a reader takes in at once, tests and generated code excepted.
const (
	FunctionLines = 50  // a function has fewer
	FileLines     = 600 // and so does a file
)

// Exceptions names what may be longer, "file.go" or "file.go:function", with the
// reason.
var Exceptions = map[string]string{}
