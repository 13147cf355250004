// What core-full.wasm opens: every format.
#include "opening_machine.h"

#include "espalier/foreign/any_opener.h"

namespace espalier::abi {

std::unique_ptr<OpeningMachine> make_opening_machine(const OpenOptions& options) {
  return std::make_unique<AnyOpener>(options);
}

}  // namespace espalier::abi
