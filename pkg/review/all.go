package review

// written is object, with the fields that the type does not have.
func (k kindOf[T]) written(r Reviewer, req Request) (*T, error) {
	obj, err := k.object(r, req)
	if err == nil && k.newer != nil {
		k.newer(req.Object, obj)
	}
	return obj, err
}

// read is decode, with the fields that the type does not have.
func (k kindOf[T]) read(r Reviewer, what string, data []byte) (*T, error) {
	obj, err := k.decode(r, what, data)
	if obj != nil && k.newer != nil {
		k.newer(data, obj)
	}
	return obj, err
}

// reading sets what reads fields that the type does not have.
func (k kindOf[T]) reading(newer func(data []byte, obj *T)) kindOf[T] {
	k.newer = newer
	return k
}
