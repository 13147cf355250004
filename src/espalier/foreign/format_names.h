// The names that the files of a format have.
#ifndef ESPALIER_FOREIGN_FORMAT_NAMES_H_
#define ESPALIER_FOREIGN_FORMAT_NAMES_H_

#include <string_view>

#include "espalier/format/format_info.h"

namespace espalier {

/// Whether the file name `name`, without folders, has an ending of `format`. Hidden files have
/// none, unless all of the name is an ending.
bool is_named_as(const FormatInfo& format, std::string_view name);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_FORMAT_NAMES_H_
