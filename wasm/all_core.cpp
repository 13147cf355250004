// What core-all.wasm opens: every format, as native programs do (foreign/formats.cpp). JavaScript
// loads it for every file that is not Espalier's.
#include "foreign_options.h"
#include "opening_machine.h"

#include "espalier/foreign/any_opener.h"
#include "espalier/read/opening_machine.h"

namespace espalier::abi {

std::unique_ptr<OpeningMachine> make_opening_machine(const OpenOptions& options) {
  return std::make_unique<AnyOpener>(foreign_options(options));
}

}  // namespace espalier::abi
