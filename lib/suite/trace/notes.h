#pragma once
/// What sessions said and nobody has looked at yet.
///
/// Use:     if (notes.fit(text)) notes.add({&dialogue, now, Said::reply}, text);
///          notes.take([](const Notes::Note& note, std::string_view text) { … });
/// Cost:    a copy of the text. To look at a line (lib/suite/trace/dialogue.h) takes more code and data than a
///          program has in the nearest cache when it has one line; for many lines at once they are fetched once.
/// Secrets: may be in it. They stay in the process, as in the buffer that the text was read into.
/// Thread:  the loop's.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "lib/base/time.h"

namespace pen::trace {

class Dialogue;

enum class Said : std::uint8_t { command, reply, response, mark, end };

class Notes {
 public:
  // Some 15 messages; small beside the cache of the processor that has it.
  static constexpr std::size_t kBytes = 8192;

  struct Note {
    Dialogue* whose;
    WallTime time;
    Said what;
    std::uint32_t size = 0;  // add() sets it
  };

  bool empty() const { return end_ == 0; }
  bool fit(std::string_view text) const { return sizeof(Note) + text.size() <= kBytes - end_; }
  /// text: must fit.
  void add(Note note, std::string_view text) {
    if (!bytes_) bytes_ = std::make_unique_for_overwrite<char[]>(kBytes);
    note.size = static_cast<std::uint32_t>(text.size());
    std::memcpy(bytes_.get() + end_, &note, sizeof note);
    text.copy(bytes_.get() + end_ + sizeof note, text.size());
    end_ += sizeof note + text.size();
  }
  /// Calls each(note, text) in the order of add() and forgets them. each() must not add.
  template <class Each>
  void take(Each each) {
    for (std::size_t at = 0; at < end_;) {
      Note note;
      std::memcpy(&note, bytes_.get() + at, sizeof note);
      at += sizeof note;
      each(note, std::string_view(bytes_.get() + at, note.size));
      at += note.size;
    }
    end_ = 0;
  }
  /// Gives the memory back. empty() must be true.
  void release() { bytes_.reset(); }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t end_ = 0;
};

}  // namespace pen::trace
