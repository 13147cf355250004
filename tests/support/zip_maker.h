// Zip archives, byte by byte, for tests.
#ifndef ESPALIER_TESTS_SUPPORT_ZIP_MAKER_H_
#define ESPALIER_TESTS_SUPPORT_ZIP_MAKER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/foreign/zip/inflate.h"

namespace espalier::testing {

/// One entry: `packed` is what the archive holds, and `data` what it stands for.
struct ZipPart {
  std::string name;
  std::string data;
  std::string packed = data;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  std::string local_extra = {};
  std::string descriptor = {};
};

/// A deflate stream of one stored block, which is what it takes to say `data` without a compressor.
inline std::string deflated(std::string_view data) {
  const auto size = static_cast<std::uint16_t>(data.size());
  const auto byte = [](unsigned value) { return static_cast<char>(value & 0xFF); };
  std::string stream{'\x01', byte(size), byte(size >> 8u), byte(~size), byte(~size >> 8u)};
  return stream += data;
}

inline void append_number(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    out += static_cast<char>(i < sizeof value ? value >> (8 * i) & 0xFF : 0);
  }
}

/// Bytes before the first entry, and after the last, may be added by the caller.
inline std::string make_zip(const std::vector<ZipPart>& parts) {
  std::string file;
  std::string directory;
  for (const ZipPart& part : parts) {
    const std::uint32_t crc = crc32_after(0, as_bytes(part.data));
    const auto common = [&](std::string& out) {
      append_number(out, 20, 2);
      append_number(out, part.flags, 2);
      append_number(out, part.method, 2);
      append_number(out, 0, 4);
      append_number(out, crc, 4);
      append_number(out, part.packed.size(), 4);
      append_number(out, part.data.size(), 4);
      append_number(out, part.name.size(), 2);
    };
    directory += "PK\x01\x02";
    append_number(directory, 20, 2);
    common(directory);
    append_number(directory, 0, 12);
    append_number(directory, file.size(), 4);
    directory += part.name;
    file += "PK\x03\x04";
    common(file);
    append_number(file, part.local_extra.size(), 2);
    file += part.name + part.local_extra + part.packed + part.descriptor;
  }
  const std::size_t directory_offset = file.size();
  file += directory + "PK\x05\x06";
  append_number(file, 0, 4);
  append_number(file, parts.size(), 2);
  append_number(file, parts.size(), 2);
  append_number(file, directory.size(), 4);
  append_number(file, directory_offset, 4);
  append_number(file, 0, 2);
  return file;
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_ZIP_MAKER_H_
