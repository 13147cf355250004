// The worker of the package, with a decoder that waits.
import './held-decoder.js'
import '../../../dist/worker.js'
