// The row of msgpack.
#ifndef ESPALIER_FOREIGN_MSGPACK_FORMAT_H_
#define ESPALIER_FOREIGN_MSGPACK_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

inline constexpr FormatEnding kMsgpackEndings[] = {{".msgpack", "a MessagePack file"}};
inline constexpr FormatInfo kMsgpackFormat{"msgpack", "msgpack", kMsgpackEndings};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_MSGPACK_FORMAT_H_
