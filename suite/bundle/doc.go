// Package bundle packs what a run left into one archive that others can check:
// results, histories, raw logs, broker logs and plans, with a checksum of each
// file. Secrets never enter it. Two bundles of the same folder are the same bytes.
package bundle
