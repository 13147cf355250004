// What core.wasm opens: Espalier files with the tree that is stored. JavaScript takes
// core-all.wasm for other formats and for names to nest.
#include <memory>
#include <optional>

#include "opening_machine.h"

#include "espalier/format/nest_names.h"
#include "espalier/format/owned_tables.h"
#include "espalier/read/opener.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

// Stands here in place of the core's own, which would add a sixth to the module.
std::optional<OwnedTables> nest_names(const Tables&, const Limits&) { return std::nullopt; }

namespace abi {

std::unique_ptr<OpeningMachine> make_opening_machine(const OpenOptions& options) {
  return std::make_unique<Opener>(options);
}

}  // namespace abi
}  // namespace espalier
