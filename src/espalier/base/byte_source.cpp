#include <string>

#include "espalier/base/counted.h"
#include "espalier/bytes.h"

namespace espalier {

Result<void> check_answer(const Extent& extent, ByteSpan bytes) {
  if (bytes.size() == extent.length) return {};
  return fail(ErrorCode::kIoError,
              "the source returned " + counted(bytes.size(), "byte") + " in place of " +
                  std::to_string(extent.length) + "; it must return all or an error",
              extent.offset);
}

}  // namespace espalier
