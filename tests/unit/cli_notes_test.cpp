// How the command line prints the notes on a checkpoint. No format that the library reads has any
// yet, so the catalogs are built here.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/opening/notes.h"
#include "cli/terminal/json_writer.h"
#include "cli/terminal/output.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/kind.h"

namespace espalier::cli {
namespace {

using CatalogPtr = std::shared_ptr<const Catalog>;

CatalogPtr catalog_of(std::vector<Note> listed, std::vector<FileEntry> further_files = {}) {
  ForeignParts parts;
  parts.files = {{.length = 8}};
  for (FileEntry& file : further_files) parts.files.push_back(std::move(file));
  parts.tables.nodes = {{.kind = static_cast<std::uint8_t>(Kind::kDict), .value = 2},
                        {.kind = static_cast<std::uint8_t>(Kind::kDict), .value = 2}};
  for (Note& note : listed) parts.notes.add(std::move(note));
  auto catalog = Catalog::from_foreign(std::move(parts), Limits());
  REQUIRE(catalog);
  return *catalog;
}

FileEntry missing(const std::string& name) {
  return {.name = name,
          .length = 4,
          .problem = Error{ErrorCode::kFileMissing, Error::kNoOffset, {}, "it is not there", name}};
}

std::string printed(const std::function<void(Output&)>& print) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  REQUIRE(file);
  Output out(::fileno(file.get()));
  print(out);
  REQUIRE(out.finish());
  std::rewind(file.get());
  std::string text;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    text.append(buffer.data(), n);
  }
  return text;
}

std::string text_of(const CatalogPtr& catalog) {
  return printed([&](Output& out) { print_notes(out, *catalog); });
}

std::string json_of(const CatalogPtr& catalog) {
  return printed([&](Output& out) {
    JsonWriter json(out);
    json.begin_object();
    write_notes(json, *catalog);
    json.end_object();
  });
}

std::vector<Note> losses(std::size_t count) {
  std::vector<Note> notes;
  for (std::size_t i = 0; i < count; ++i) {
    notes.push_back({Note::Kind::kLoss, "x/" + std::to_string(i), "lost"});
  }
  return notes;
}

std::size_t lines_in(std::string_view text, std::string_view line) {
  std::size_t count = 0;
  for (auto at = text.find(line); at != text.npos; at = text.find(line, at + 1)) ++count;
  return count;
}

TEST_CASE("Without notes, nothing is printed") {
  const auto catalog = catalog_of({}, {{.name = "second", .length = 4}});
  CHECK(text_of(catalog) == "");
  CHECK(json_of(catalog) == "{}");
}

TEST_CASE("One note is one line after its count") {
  const auto catalog = catalog_of({{Note::Kind::kWarning, "a/b", "the byte order is a guess"}});
  CHECK(text_of(catalog) ==
        "1 note:\n"
        "  warning: a/b: the byte order is a guess\n");
  CHECK(json_of(catalog) ==
        R"j({"note_count":1,"notes":[)j"
        R"j({"kind":"warning","path":"a/b","message":"the byte order is a guess"}]})j");
}

TEST_CASE("Files that cannot be read are losses, and come before the opener's notes") {
  const auto catalog =
      catalog_of({{Note::Kind::kLoss, {}, "there is an unknown section"}},
                 {missing("second"), {.name = "third", .length = 4}, missing("fourth")});
  CHECK(text_of(catalog) ==
        "3 notes:\n"
        "  loss: it is not there (code file_missing, in file second)\n"
        "  loss: it is not there (code file_missing, in file fourth)\n"
        "  loss: there is an unknown section\n");
  CHECK(
      json_of(catalog) ==
      R"j({"note_count":3,"notes":[)j"
      R"j({"kind":"loss","path":"","message":"it is not there (code file_missing, in file second)"},)j"
      R"j({"kind":"loss","path":"","message":"it is not there (code file_missing, in file fourth)"},)j"
      R"j({"kind":"loss","path":"","message":"there is an unknown section"}]})j");
}

TEST_CASE("Text has the first five notes, and says that JSON has more") {
  CHECK(text_of(catalog_of(losses(5))) ==
        "5 notes:\n"
        "  loss: x/0: lost\n"
        "  loss: x/1: lost\n"
        "  loss: x/2: lost\n"
        "  loss: x/3: lost\n"
        "  loss: x/4: lost\n");
  CHECK(text_of(catalog_of(losses(5), {missing("second")})) ==
        "6 notes (--json lists more):\n"
        "  loss: it is not there (code file_missing, in file second)\n"
        "  loss: x/0: lost\n"
        "  loss: x/1: lost\n"
        "  loss: x/2: lost\n"
        "  loss: x/3: lost\n");
}

TEST_CASE("Notes that the catalog does not list are counted") {
  const auto catalog = catalog_of(losses(Notes::kMaxListed + 5), {missing("second")});
  CHECK(text_of(catalog).starts_with("1006 notes (--json lists more):\n"));
  const std::string json = json_of(catalog);
  CHECK(json.starts_with(
      R"j({"note_count":1006,"notes":[{"kind":"loss","path":"","message":"it is)j"));
  CHECK(lines_in(json, R"j("message")j") == Notes::kMaxListed + 1);
  CHECK(json.ends_with(R"j({"kind":"loss","path":"x/999","message":"lost"}]})j"));
}

TEST_CASE("No note breaks the line or fills the screen") {
  const std::string long_text(100'000, 'x');
  const auto catalog = catalog_of({{Note::Kind::kLoss, "a\nb\x1b[2J", "c\x9b\n\xe2\x80\x8b"},
                                   {Note::Kind::kLoss, long_text, long_text}});
  const std::string text = text_of(catalog);
  CHECK(text.starts_with("2 notes:\n  loss: a\\nb\\x1b[2J: c\\x9b\\n\\u{200b}\n  loss: xxx"));
  CHECK(text.size() < 2000);
  // JSON has all of it.
  const std::string json = json_of(catalog);
  CHECK(json.find(R"j("path":"a\nb\u001b[2J","message":"c\\x9b\\n\\u{200b}")j") != json.npos);
  CHECK(json.size() > 2 * long_text.size());
}

}  // namespace
}  // namespace espalier::cli
