package storetest

// Optional says that the case is about a power that a store may lack and that is
// more than sweeping.
func (c Case) Optional() bool { return c.needs&^sweeper != 0 }

// Faulty says that the case is about lost connections.
func (c Case) Faulty() bool { return c.needs&faults != 0 }
