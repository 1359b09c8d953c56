package histories

// thin leaves out what tells nothing new. It only ever drops calls that change
// nothing, so what is left is linearizable if all of it was. Without it a hot
// key's hundred onlookers, in every order, would keep Porcupine busy for ever.
//
// Three kinds go. Of refused claims that saw the same, the earliest end and the
// latest beginning hold all others' moments, since a token is claimed once and
// each state of its record is one stretch of time; a chain of non-overlapping
// ones stays too, for the leases that they tell of. Who never had a claim is told
// so rightly. And so is he who asks when others have seen that his claim was over.
func thin(history []*Op) []*Op {
	drop := map[*Op]bool{}
	onlookers(history, drop)
	lives := map[uint64]*life{}
	for _, o := range history {
		if o.Kind != Claim && lives[o.Token] == nil {
			lives[o.Token] = lifeOf(o.Token, history)
		}
	}
	kept := make([]*Op, 0, len(history))
	for _, o := range history {
		if drop[o] || o.Kind != Claim && lives[o.Token].settles(o) {
			continue
		}
		kept = append(kept, o)
	}
	return kept
}

func onlookers(history []*Op, drop map[*Op]bool) {
	seen := map[Seen][]*Op{}
	for _, o := range history {
		if o.Kind == Claim && o.Result == Taken {
			version := o.Seen
			version.Left = 0
			seen[version] = append(seen[version], o)
		}
	}
	for _, same := range seen {
		first, last := same[0], same[0]
		for _, o := range same {
			if o.ended() < first.ended() {
				first = o
			}
			if o.begun() > last.begun() {
				last = o
			}
		}
		var until int64
		for _, o := range same { // in the order of their beginnings
			switch {
			case o.begun() > until:
				until = o.ended()
			case o != first && o != last:
				drop[o] = true
			}
		}
	}
}

// life is what a history tells of one token's claim.
type life struct {
	had  bool  // it may have been granted
	over int64 // from here on it is no longer in progress,
	gone int64 // from here on nor is its answer there, and neither comes again
}

func lifeOf(token uint64, history []*Op) *life {
	l := &life{over: forever, gone: forever}
	// begun is when the claim has been granted for sure, and will not be again.
	begun, last, claims := int64(forever), int64(0), 0
	for _, o := range history {
		witness := o.Seen.Token == token && (o.Result == Taken || o.Result == Claimed)
		if o.Token == token {
			switch {
			case o.Kind == Claim && o.Result != Taken:
				claims++
				last = max(last, o.ended())
			case o.Kind != Release && o.Result == Done:
				witness = true
			}
		}
		if witness {
			l.had = true
			begun = min(begun, o.ended())
		}
	}
	l.had = l.had || claims > 0
	if claims > 1 {
		begun = max(begun, last)
	}
	for _, o := range history {
		if o.Result == Unknown || o.begun() < begun {
			continue
		}
		switch {
		case o.Result == Taken || o.Result == Claimed:
			if o.Seen.Token != token {
				l.gone = min(l.gone, o.ended())
			} else if o.Seen.Completed {
				l.over = min(l.over, o.ended())
			}
		case o.Token != token:
		case o.Kind == Complete && o.Result == Lost:
			l.gone = min(l.gone, o.ended())
		case o.Kind != Extend || o.Result == Lost:
			l.over = min(l.over, o.ended())
		}
	}
	l.over = min(l.over, l.gone)
	return l
}

// settles says that o, which is no claim, can have changed nothing and was told
// what it had to be told.
func (l *life) settles(o *Op) bool {
	switch {
	case o.Kind == Release && o.Result != Lost, o.Kind == Extend && o.Result == Lost:
		return !l.had || o.begun() > l.over
	case o.Kind == Complete && o.Result == Lost:
		return !l.had || o.begun() > l.gone
	case o.Result == Unknown:
		return !l.had || o.begun() > l.gone
	}
	return false
}
