package taints

// ProbeName is the DeviceTaintRule that package evictor creates and deletes to detect the in-tree controller. It selects a
// driver that does not exist and has the effect None.
const ProbeName = "dra-steward-probe"
