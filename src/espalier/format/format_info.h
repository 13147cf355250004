// The facts about a file format: its name, and the names of its files. Each format has its row in
// its folder.
#ifndef ESPALIER_FORMAT_FORMAT_INFO_H_
#define ESPALIER_FORMAT_FORMAT_INFO_H_

#include <span>
#include <string_view>

namespace espalier {

/// An ending of file names, such as ".pt".
struct FormatEnding {
  /// With its dot, in lower case; a star stands for any text.
  std::string_view text;
  /// What a file with this name is, for messages: "a PyTorch file". Empty if files of other formats
  /// have such names, too.
  std::string_view description = {};
};

/// The row of a format.
struct FormatInfo {
  /// For programs: "torch".
  std::string_view name;
  /// For people, in a list: "PyTorch".
  std::string_view title;
  /// Of the files that are opened. The first one is the usual one.
  std::span<const FormatEnding> endings = {};
  /// Of further files, in which such a file has tensors; empty if they have none of their own.
  std::string_view part_ending = {};
  /// Whether the file that is opened is nothing without others of its folder.
  bool needs_folder = false;

  /// A name is that of one format.
  friend constexpr bool operator==(const FormatInfo& a, const FormatInfo& b) {
    return a.name == b.name;
  }
};

inline constexpr FormatEnding kEspalierEndings[] = {{".espalier", "an Espalier file"}};
inline constexpr FormatInfo kEspalierFormat{"espalier", "Espalier", kEspalierEndings};
/// No file: a state tree in memory.
inline constexpr FormatInfo kValueFormat{"value", "a value"};

}  // namespace espalier

#endif  // ESPALIER_FORMAT_FORMAT_INFO_H_
