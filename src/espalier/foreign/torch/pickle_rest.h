// What follows a pickle where a file should end.
#ifndef ESPALIER_FOREIGN_TORCH_PICKLE_REST_H_
#define ESPALIER_FOREIGN_TORCH_PICKLE_REST_H_

#include <string>
#include <string_view>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/pickle/pickle_graph.h"

namespace espalier {

/// What the bytes behind a pickle are, for the end of a message: attackers put a second pickle
/// there, because scanners read only the first. It says what loading that would import or call, as
/// far as `rest` goes: the bytes that were read, of perhaps more.
std::string describe_rest(ByteSpan rest);

/// Adds to the error of a pickle that cannot be opened what loading it would have imported or
/// called before it failed, so that users do not try another program.
void add_code(Error& error, const PickleGraph& graph);

/// Whether joblib wrote the pickle that began like this. joblib puts an object of its own class
/// before the bytes of each array, which are no opcodes.
bool is_of_joblib(const PickleGraph& begun);
inline constexpr std::string_view kJoblib =
    "joblib wrote this file, with arrays inside a pickle, and that is not read; save the arrays "
    "with espalier.save() where they were made, or ask its author for a safetensors or .espalier "
    "file";

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TORCH_PICKLE_REST_H_
