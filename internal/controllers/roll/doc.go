// Package roll carries out DeviceRolls: it takes nodes through maintenance one after the other, their
// consumers first and the driver last.
//
// [Decide] decides the next steps of a roll from its status and from what there is, without a client
// or a clock. The controller writes the status first and acts then, and each act can be repeated: a
// controller that is killed anywhere decides the same again.
package roll
