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
	// Beside are packages of the same floor that it may import all the same.
	Beside []string
	// Importers are the only packages that may import it; none means all above.
	Importers []string
	// Never are import paths that it must not reach, not even through others.
	Never []string
	// Pure packages are told the time, they do not ask for it.
	Pure bool
}

// Packages is the architecture of the root module, by path below Root. Floors:
//
//	5  commands              cmd
//	4  doing                 webhook, evictor, patchstatus, podresources, lint, facts
//	3  judging and looking   review, rulebook, fix, usage on tracker, why on both
//	2  deciding              validate, materialize and drain on patch, mutate, toleration, policy, config, manifest
//	1  saying                api, policies, charts, cdi, example, quantity
var Packages = map[string]Package{
	"cmd/dra-steward":     {Floor: 5, Beside: []string{"cmd/dra-steward/app"}},
	"cmd/dra-steward/app": {Floor: 5},

	"webhook":               {Floor: 4, Never: []string{Root + "/pkg/usage", Root + "/pkg/tracker"}},
	"pkg/evictor":           {Floor: 4},
	"pkg/patchstatus":       {Floor: 4},
	"pkg/podresources":      {Floor: 4},
	"internal/node":         {Floor: 4, Beside: []string{"pkg/podresources"}},
	"internal/expiry":       {Floor: 4},
	"internal/materializer": {Floor: 4, Never: []string{controllerRuntime}},
	"internal/taints":       {Floor: 4, Pure: true},
	"internal/lint":         {Floor: 4, Never: []string{controllerRuntime}},
	"internal/audit":        {Floor: 4, Beside: []string{"internal/lint"}, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/report":       {Floor: 4, Beside: []string{"internal/audit", "pkg/evictor"}, Never: []string{controllerRuntime}, Pure: true},
	"internal/facts":        {Floor: 4, Never: []string{controllerRuntime}},
	"internal/policystatus": {Floor: 4, Never: []string{controllerRuntime}},
	"pkg/evictor/drains":    {Floor: 4},

	"internal/controllers/extendedresources": {Floor: 4, Never: []string{controllerRuntime, opa}},

	"pkg/review":               {Floor: 3, Never: []string{controllerRuntime}, Pure: true},
	"pkg/usage":                {Floor: 3, Beside: []string{"pkg/tracker"}},
	"pkg/tracker":              {Floor: 3},
	"pkg/why":                  {Floor: 3, Beside: []string{"pkg/tracker", "pkg/usage"}, Pure: true},
	"internal/admissionpolicy": {Floor: 3, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/rotate":          {Floor: 3, Never: []string{controllerRuntime}},
	"internal/fix":             {Floor: 3, Never: []string{clientGo, controllerRuntime}},
	"internal/rulebook":        {Floor: 3, Never: []string{clientGo, controllerRuntime}, Pure: true},

	"pkg/validate":               {Floor: 2, Beside: []string{"pkg/patch", "pkg/validate/apiserver"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/validate/apiserver":     {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/validate/internal/form": {Floor: 1, Beside: []string{"pkg/validate/internal/walk"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/validate/internal/walk": {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},

	"pkg/drain":         {Floor: 2, Beside: []string{"pkg/patch"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/mutate":        {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/opaque":        {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/patch":         {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/materialize":   {Floor: 2, Beside: []string{"pkg/patch"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/toleration":    {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/policy":        {Floor: 2, Beside: []string{"pkg/validate"}, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/config":   {Floor: 2, Beside: []string{"internal/manifest"}, Never: []string{clientGo, controllerRuntime}},
	"internal/manifest": {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}},

	"internal/certificate": {Floor: 2, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},

	"api/v1alpha1":                {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"policies":                    {Floor: 1, Importers: []string{"pkg/policy"}},
	"policies/parameters":         {Floor: 1, Importers: []string{"pkg/opaque"}},
	"charts":                      {Floor: 1},
	"pkg/cdi":                     {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"pkg/podresources/checkpoint": {Floor: 1, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},

	"pkg/guard":                 {Floor: 1, Beside: []string{"api/v1alpha1"}, Never: []string{clientGo, controllerRuntime, opa}, Pure: true},
	"internal/table":            {Floor: 1, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/extendedresource": {Floor: 1, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/fairqueue":        {Floor: 1, Never: []string{clientGo, controllerRuntime}},
	"internal/quantity":         {Floor: 1, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/example":          {Floor: 1, Never: []string{clientGo, controllerRuntime}, Pure: true},
	"internal/sizedcache":       {Floor: 1, Pure: true},

	// For tests and for the build; no package that ships imports them.
	"internal/testobj":  {Floor: 1, Importers: []string{"(tests)"}},
	"internal/chartdoc": {Floor: 3, Importers: []string{"(tests)"}},
	"internal/depcheck": {Floor: 1, Importers: []string{"(tests)"}},
	"internal/citest":   {Floor: 1, Importers: []string{"(tests)"}},
	"internal/doctest":  {Floor: 1, Importers: []string{"(tests)"}},
	// The modules test/envtest and test/oracle build Kubernetes with it.
	"internal/kubemodule": {Floor: 1, Importers: []string{"(tests)"}},
}

// Modules are the own modules beside the root one, by folder, each with the
// packages of ours that it imports outside its tests. "..." allows all of them.
var Modules = map[string][]string{
	"scheduler":        {"api/v1alpha1", "pkg/materialize", "pkg/patch", "pkg/tracker"},
	"image":            {},
	"test/alerts":      {},
	"test/certmanager": {},
	"test/chart":       {"charts"},
	"test/envtest":     {"api/v1alpha1", "charts", "cmd/dra-steward/app", "internal/kubemodule", "test/chart", "webhook"},
	"test/evictor":     {},
	"test/node":        {"..."},
	"test/oracle":      {"..."},
	"test/tracker":     {},
	"tools/prose":      {},
}

// NotRequired are modules that the root go.mod never names: who imports one of our
// packages must not have to download them.
var NotRequired = []string{"k8s.io/kubernetes", "helm.sh/helm/v3", "helm.sh/helm/v4"}

// The sizes that a reader takes in at once, tests and generated code excepted.
const (
	FunctionLines = 50  // a function has fewer
	FileLines     = 600 // and so does a file
)

// Exceptions names what may be longer, "file.go" or "file.go:function", with the
// reason.
var Exceptions = map[string]string{}
