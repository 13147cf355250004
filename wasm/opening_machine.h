// Chooses the machine that opens files.
#ifndef ESPALIER_WASM_OPENING_MACHINE_H_
#define ESPALIER_WASM_OPENING_MACHINE_H_

#include <memory>

#include "espalier/read/opening_machine.h"

namespace espalier::abi {

/// Makes the machine that opens a file. Each module links its own; the tests' module opens a format
/// with two files.
std::unique_ptr<OpeningMachine> make_opening_machine(const OpenOptions& options);

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_OPENING_MACHINE_H_
