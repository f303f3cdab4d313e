package psm_test

import (
	"fmt"

	"watershed.example/psm"
)

// A partition's life: writes, a retry, a transaction that is aborted, a
// snapshot, and a restart from it.
func Example() {
	state := psm.New(psm.Config{})
	var log []psm.Batch // stands for the segment files

	// write appends one batch at the log's end. A broker gets it as bytes, by
	// psm.DecodeBatch.
	write := func(origin psm.Origin, b psm.Batch) {
		b.BaseOffset += state.End()
		b.LastOffset += state.End()
		state.Begin(psm.Append{Origin: origin})
		dup, err := state.Add(&b)
		if err != nil {
			state.Discard()
			fmt.Println("refused with code", psm.Code(err))
			return
		}
		if dup.Found {
			state.Discard()
			fmt.Println("already at offset", dup.BaseOffset)
			return
		}
		log = append(log, b) // the write; if it failed: state.Discard()
		for _, c := range state.Commit() {
			fmt.Printf("transaction of producer %d at offsets %d to %d, aborted: %t\n", c.ProducerID, c.FirstOffset, c.LastOffset, c.Aborted)
		}
	}

	// Producer 7 writes records 0 to 2, sends them again, and then skips some.
	three := psm.Batch{LastOffset: 2, ProducerID: 7, BaseSequence: 0, MaxTimestamp: 1000}
	write(psm.Client, three)
	write(psm.Client, three)
	gap := three
	gap.BaseSequence = 9
	write(psm.Client, gap)

	// Producer 8 writes in a transaction, which its coordinator aborts.
	const transactional = 0x10
	write(psm.Client, psm.Batch{ProducerID: 8, Attributes: transactional, MaxTimestamp: 1000})
	highWatermark := state.End()
	fmt.Println("last stable offset", state.LSO(highWatermark), "of", highWatermark)
	marker, err := psm.DecodeBatch(psm.EndTxnMarker{ProducerID: 8, Timestamp: 1000}.Append(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	write(psm.Coordinator, marker)
	state.OnHighWatermark(state.End())
	fmt.Println("last stable offset", state.LSO(state.End()), "of", state.End())

	// A snapshot, and a restart from it. OSDir is a real folder.
	snapshots := psm.NewSnapshots(newCrashDir(), nil)
	if err := snapshots.Write(state); err != nil {
		fmt.Println(err)
		return
	}
	end := state.End()
	state = psm.New(psm.Config{})
	err = state.Reload(snapshots, psm.Reload{
		Target: end, NowMs: 2000,
		Replay: func(from, to int64, each func(*psm.Batch) error) error {
			for i := range log {
				if log[i].LastOffset >= from && log[i].LastOffset < to {
					if err := each(&log[i]); err != nil {
						return err
					}
				}
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	write(psm.Client, three)

	// The partition was a mirror until now, and is to take writes of its own:
	// no producer from before is known any more.
	barrier, err := psm.DecodeBatch(psm.Barrier{SourceClusterID: "o5jt3v-4S1Sc3Mw97_PqJw", Timestamp: 2000}.Append(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	write(psm.Coordinator, barrier)
	write(psm.Client, three)
	for _, p := range state.Producers() {
		fmt.Println("producer", p.ProducerID, "wrote up to sequence", p.LastSequence)
	}

	// Output:
	// already at offset 0
	// refused with code 45
	// last stable offset 3 of 4
	// transaction of producer 8 at offsets 3 to 4, aborted: true
	// last stable offset 5 of 5
	// already at offset 0
	// producer 7 wrote up to sequence 2
}
