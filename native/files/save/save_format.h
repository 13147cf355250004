// The formats that the library writes, and the endings of file names that stand for formats.
#ifndef ESPALIER_FILES_SAVE_SAVE_FORMAT_H_
#define ESPALIER_FILES_SAVE_SAVE_FORMAT_H_

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "espalier/error.h"
#include "espalier/format/format_info.h"

namespace espalier {

/// A format that the library writes.
enum class SaveFormat : std::uint8_t {
  kEspalier,     // save()
  kSafetensors,  // save_safetensors()
  kNpy,          // save_npy(): one tensor
  kRaw,          // save_raw(): the bytes of one tensor
};

inline constexpr std::array kSaveFormats = {SaveFormat::kEspalier, SaveFormat::kSafetensors,
                                            SaveFormat::kNpy, SaveFormat::kRaw};

/// "espalier", "safetensors", "npy", "raw".
std::string_view save_format_name(SaveFormat format);

/// What the ending of a name stands for.
struct NamedFormat {
  FormatEnding ending;
  /// nullopt for formats that the library does not write.
  std::optional<SaveFormat> format;
};

/// The same for an ending in any case; nullopt if it stands for no known format.
std::optional<NamedFormat> find_named_format(const std::filesystem::path& name);

/// kInvalidArgument if the ending of `name` stands for another format than `format`: every program
/// that trusts the name would misread the file. Other endings, and none, fit every format.
[[nodiscard]] Result<void> check_format_ending(const std::filesystem::path& name,
                                               SaveFormat format);

}  // namespace espalier

#endif  // ESPALIER_FILES_SAVE_SAVE_FORMAT_H_
