// Package roll decides what happens in a DeviceRoll, which takes nodes through maintenance one after the
// other, their consumers first and the driver last.
//
// [Decide] decides the next steps of a roll from its status and from what there is, without a client
// or a clock. The status is written first and acted on then, and each act can be repeated: a controller
// that is killed anywhere decides the same again.
package roll
