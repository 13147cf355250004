// Key paths, from text to nodes.
#ifndef ESPALIER_READ_RESOLVE_H_
#define ESPALIER_READ_RESOLVE_H_

#include <string_view>

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/key_path.h"

namespace espalier {

/// NodeRef::resolve() whose kNotFound does not say what was probably meant. For callers that only
/// ask whether a node exists, and for those with words of their own.
[[nodiscard]] Result<KeyPath> resolve_plainly(const NodeRef& root, std::string_view path);

}  // namespace espalier

#endif  // ESPALIER_READ_RESOLVE_H_
