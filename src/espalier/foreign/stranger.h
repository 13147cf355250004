// Names files of formats that the library does not read.
#ifndef ESPALIER_FOREIGN_STRANGER_H_
#define ESPALIER_FOREIGN_STRANGER_H_

#include <string_view>

#include "espalier/base/bytes.h"

namespace espalier {

/// What a file is that begins with `front`, and what its user can do, for the end of a message. It
/// goes by the bytes alone. Empty if they are those of no format that it knows.
std::string_view describe_stranger(ByteSpan front);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_STRANGER_H_
