#include "files/save/save_format.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>

#include "espalier/foreign/formats.h"
#include "espalier/foreign/numpy/format.h"
#include "espalier/foreign/safetensors/format.h"

namespace espalier {
namespace {

// A format that is written; raw bytes have no row among those that are opened.
struct Written {
  SaveFormat format;
  std::span<const FormatEnding> endings;
};

constexpr FormatEnding kRawEndings[] = {{".raw", "raw bytes"}, {".bin", "raw bytes"}};
constexpr Written kWritten[] = {{SaveFormat::kEspalier, kEspalierEndings},
                                {SaveFormat::kSafetensors, kSafetensorsEndings},
                                {SaveFormat::kNpy, kNpyEndings},
                                {SaveFormat::kRaw, kRawEndings}};

std::string_view function_name(SaveFormat format) {
  switch (format) {
    case SaveFormat::kEspalier:
      return "save()";
    case SaveFormat::kSafetensors:
      return "save_safetensors()";
    case SaveFormat::kNpy:
      return "save_npy()";
    case SaveFormat::kRaw:
      break;
  }
  return "save_raw()";
}

const FormatEnding& usual_ending(SaveFormat format) {
  const auto* const at =
      std::find_if(std::begin(kWritten), std::end(kWritten),
                   [&](const Written& written) { return written.format == format; });
  return at->endings.front();
}

}  // namespace

std::string_view save_format_name(SaveFormat format) { return usual_ending(format).text.substr(1); }

std::optional<NamedFormat> find_named_format(const std::filesystem::path& name) {
  std::string text = name.extension().string();
  // Not std::tolower(), which depends on the locale.
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const auto find_in = [&](std::span<const FormatEnding> endings) {
    const auto at = std::find_if(endings.begin(), endings.end(), [&](const FormatEnding& ending) {
      return ending.text == text && !ending.description.empty();
    });
    return at == endings.end() ? nullptr : &*at;
  };
  for (const auto& [format, endings] : kWritten) {
    if (const auto* const ending = find_in(endings)) return NamedFormat{*ending, format};
  }
  for (const FormatInfo* const format : all_formats()) {
    if (const auto* const ending = find_in(format->endings)) return NamedFormat{*ending, {}};
  }
  return std::nullopt;
}

Result<void> check_format_ending(const std::filesystem::path& name, SaveFormat format) {
  const auto found = find_named_format(name);
  if (!found || found->format == format) return {};
  std::string message = "the name ends in " + std::string(found->ending.text) + " (" +
                        std::string(found->ending.description) + "), and this would be " +
                        std::string(usual_ending(format).description) + "; ";
  message += found->format ? "call " + std::string(function_name(*found->format))
                           : "the library does not write such files";
  message += ", or end the name in " + std::string(usual_ending(format).text);
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace espalier
