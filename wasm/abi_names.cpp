// The part of abi.h that lists the formats, of which scripts/make-formats.mjs makes the package's
// list, and names dtypes and kinds. JavaScript has those itself, and its tests compare them.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "abi.h"
#include "failure.h"

#include "espalier/dtype.h"
#include "espalier/error.h"
#include "espalier/foreign/formats.h"
#include "espalier/kind.h"

namespace espalier::abi {

static_assert(sizeof(FormatRow) == 32 && offsetof(FormatRow, needs_folder) == 24);

std::uint32_t espalier_format(std::uint32_t i, FormatRow* out) {
  const auto formats = all_formats();
  if (i >= formats.size()) return 0;
  const FormatInfo& format = *formats[i];
  *out = {.name = text_of(format.name),
          .title = text_of(format.title),
          .part_ending = text_of(format.part_ending),
          .needs_folder = format.needs_folder ? 1u : 0u,
          .endings = static_cast<std::uint32_t>(format.endings.size())};
  return 1;
}

void espalier_format_ending(std::uint32_t i, std::uint32_t ending, Text* out) {
  *out = text_of(all_formats()[i]->endings[ending].text);
}

void espalier_error_name(std::uint32_t code, Text* out) {
  *out = text_of(to_string(static_cast<ErrorCode>(code)));
}

void espalier_dtype_name(std::uint32_t dtype, Text* out) {
  const auto known =
      dtype < 256 ? dtype_from_number(static_cast<std::uint8_t>(dtype)) : std::nullopt;
  *out = text_of(known ? dtype_name(*known) : std::string_view());
}

std::uint32_t espalier_dtype_bits(std::uint32_t dtype) {
  const auto known =
      dtype < 256 ? dtype_from_number(static_cast<std::uint8_t>(dtype)) : std::nullopt;
  return known ? dtype_bits(*known) : 0;
}

void espalier_kind_name(std::uint32_t kind, Text* out) {
  *out = text_of(kind > 0 && kind <= kLastKind ? kind_name(static_cast<Kind>(kind))
                                               : std::string_view());
}

}  // namespace espalier::abi
