// Names files of formats that the library does not read.
#ifndef ESPALIER_FOREIGN_COMMON_STRANGER_H_
#define ESPALIER_FOREIGN_COMMON_STRANGER_H_

#include <string_view>

#include "espalier/bytes.h"

namespace espalier {

/// What a file is that begins with `front` and has this name, and what its user can do, for the end
/// of a message. The bytes decide; the name, which may be empty, is for formats that have no magic.
/// Empty if neither is that of a format that it knows.
std::string_view describe_stranger(ByteSpan front, std::string_view name);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_STRANGER_H_
