#include "espalier/notes.h"

#include <utility>

#include "espalier/base/escaped.h"

namespace espalier {

void Notes::add(Note note) {
  ++count_;
  const bool is_code = note.kind == Note::Kind::kCode;
  if (is_code ? code_ == kMaxListed : !is_listing()) return;
  note.message = escaped(note.message);
  const auto place = is_code ? static_cast<std::ptrdiff_t>(code_++) : std::ssize(listed_);
  listed_.insert(listed_.begin() + place, std::move(note));
}

}  // namespace espalier
