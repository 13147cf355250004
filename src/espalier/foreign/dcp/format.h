// The row of distributed checkpoints of PyTorch.
#ifndef ESPALIER_FOREIGN_DCP_FORMAT_H_
#define ESPALIER_FOREIGN_DCP_FORMAT_H_

#include "espalier/format/format_info.h"

namespace espalier {

inline constexpr FormatEnding kDcpEndings[] = {{".metadata"}};
inline constexpr FormatInfo kDcpFormat{.name = "dcp",
                                       .title = "distributed PyTorch",
                                       .endings = kDcpEndings,
                                       .part_ending = ".distcp",
                                       .needs_folder = true};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_DCP_FORMAT_H_
