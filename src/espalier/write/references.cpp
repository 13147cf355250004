#include "espalier/write/references.h"

#include <algorithm>

#include "espalier/format/file_table.h"
#include "espalier/format/header.h"

namespace espalier {

std::uint32_t head_bytes(bool is_espalier, std::uint64_t file_length) {
  const std::uint64_t head = is_espalier ? kHeaderBytes : kMaxHeadBytes;
  return static_cast<std::uint32_t>(std::min(head, file_length));
}

}  // namespace espalier
