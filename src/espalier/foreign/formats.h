// The formats that a program opens. Each program links one set of these functions: native ones that
// of formats.cpp in one of its two forms (all formats, or our own alone), and each WebAssembly
// module its own.
#ifndef ESPALIER_FOREIGN_FORMATS_H_
#define ESPALIER_FOREIGN_FORMATS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "espalier/bytes.h"
#include "espalier/foreign/zip/content_reader.h"
#include "espalier/format/format_info.h"
#include "espalier/read/opening_machine.h"

namespace espalier {

/// A format that a file is in.
struct FileKind {
  /// One, or none for zip archives: see ArchiveKind.
  std::span<const FormatInfo> format;
  bool (*is_begun_by)(ByteSpan front, std::uint64_t file_size);
  std::unique_ptr<OpeningMachine> (*make)(const OpenOptions& options);
  /// Whether that is a guess, which does not count if the file is known to be something else.
  bool is_guess = false;
};

/// A format that a zip archive is in.
struct ArchiveKind {
  std::span<const FormatInfo> format;
  bool (*is_in)(const ZipDirectory& directory);
  std::unique_ptr<ContentReader> (*make)();
};

/// The formats but our own, in the order in which they are tried.
std::span<const FileKind> file_kinds();
std::span<const ArchiveKind> archive_kinds();
/// Says of a file that it is none of these, and what to do then.
std::string_view no_known_format();
std::string_view mend_of_unknown();
/// Opens files that begin like none of these, as Espalier files; null in a module without our own
/// format.
std::unique_ptr<OpeningMachine> make_own_opener(const OpenOptions& options);

/// The rows of all formats, each once, our own first. Programs that open our own alone have all of
/// them, too: no file is saved under a name of another format.
std::span<const FormatInfo* const> all_formats();

template <class Machine>
std::unique_ptr<OpeningMachine> make_machine(const OpenOptions& options) {
  return std::make_unique<Machine>(options);
}

template <class Reader>
std::unique_ptr<ContentReader> make_reader() {
  return std::make_unique<Reader>();
}

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_FORMATS_H_
