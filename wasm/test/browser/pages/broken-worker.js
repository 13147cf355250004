// A worker whose script cannot be loaded.
import './there-is-no-such-script.js'
