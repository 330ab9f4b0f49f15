// Package fix writes defaults into manifests. It edits the text by positions, so that
// comments, order and everything else stay as they are byte for byte, and it reads the
// result again: what does not come out as the same objects plus the defaults is left
// alone. Only defaults that say nothing new are written, today the operator Equal of
// tolerations. A time or a finalizer belongs to the cluster and not into a file.
package fix
