// Key paths from the numbers of nodes and tensors, for messages.
#ifndef ESPALIER_FORMAT_FIND_PATH_H_
#define ESPALIER_FORMAT_FIND_PATH_H_

#include <cstdint>
#include <string>

#include "espalier/detail/catalog.h"

namespace espalier {

/// The printed key path of node `node`, for error messages: looks for parents by scanning, in time
/// linear in the nodes. The tree structure must be valid; the metadata tree's paths start with
/// "(metadata)".
std::string find_path(const Tables& tables, std::uint32_t node);

/// The path of the first node that names tensor `tensor`; empty if none does.
std::string find_tensor_path(const Tables& tables, std::uint32_t tensor);

}  // namespace espalier

#endif  // ESPALIER_FORMAT_FIND_PATH_H_
