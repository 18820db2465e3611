#include "lib/queue/postfix_queue/queue_file.h"

#include <fmt/format.h>

#include <charconv>

#include "lib/base/text.h"

namespace pen::postfix_queue {
namespace {

struct Record {
  char type = 0;
  std::string_view data;
  std::uint64_t offset = 0;
};

Error at(FileError error, std::uint64_t offset, std::string_view what) {
  return {error, fmt::format("byte {}: {}", offset, what)};
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The records in reading order: pointers are followed here.
class Records {
 public:
  explicit Records(std::string_view bytes) : bytes_(bytes), left_(bytes.size()) {}

  /// Errors: cut_short, circular, damaged.
  Result<Record> next() {
    for (;;) {
      PEN_TRY_ASSIGN(Record record, plain());
      if (record.type != 'p') return record;
      const auto target = number<std::uint64_t>(record.data);
      if (!target) return fail(at(FileError::damaged, record.offset, "a pointer that is no number"));
      if (*target == 0) continue;  // room for one
      if (*target >= bytes_.size()) return fail(at(FileError::damaged, record.offset, "a pointer behind the end"));
      at_ = *target;
    }
  }

 private:
  Result<Record> plain() {
    const std::uint64_t begin = at_;
    if (begin >= bytes_.size()) return fail(at(FileError::cut_short, begin, "no end record"));
    Record record{.type = bytes_[at_++], .data = {}, .offset = begin};
    std::uint64_t length = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at_ >= bytes_.size()) return fail(at(FileError::cut_short, begin, "within a length"));
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      length |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if ((byte & 0x80U) == 0) break;
      if (shift == 28) return fail(at(FileError::damaged, begin, "a length of more than five bytes"));
    }
    if (length > bytes_.size() - at_) return fail(at(FileError::cut_short, begin, "within a record"));
    record.data = bytes_.substr(at_, length);
    at_ += length;
    // What is read once takes no more than the file.
    const std::uint64_t taken = at_ - begin;
    if (taken > left_) return fail(at(FileError::circular, begin, "the same records again"));
    left_ -= taken;
    return record;
  }

  std::string_view bytes_;
  std::uint64_t at_ = 0;
  std::uint64_t left_;
};

class Reader {
 public:
  Reader(std::string_view bytes, const ContentSink& content) : records_(bytes), content_(content) {}

  Result<QueueFile> read() {
    PEN_TRY_ASSIGN(Record record, records_.next());
    for (;; first_ = false) {
      if (record.type == 'E') break;
      PEN_TRY(take(record));
      PEN_TRY_ASSIGN(record, records_.next());
    }
    if (part_ != Part::extracted) return fail(at(FileError::damaged, record.offset, "an end record too early"));
    if (!file_.arrival) return fail(at(FileError::damaged, record.offset, "no time of arrival"));
    if (!sender_) return fail(at(FileError::damaged, record.offset, "no sender"));
    return std::move(file_);
  }

 private:
  enum class Part { envelope, content, extracted };

  Result<void> take(const Record& r) {
    if (part_ == Part::content) return content(r);
    switch (r.type) {
      case 'M':
        if (part_ != Part::envelope) return fail(at(FileError::damaged, r.offset, "content a second time"));
        part_ = Part::content;
        return {};
      case 'C':
        return size(r);
      case 'T':
        return time(r);
      case 'S':
        sender_ = true;
        file_.sender = r.data;
        return {};
      case 'F':
        file_.full_name = r.data;
        return {};
      case 'A':
        return attribute(r);
      case 'O':
        next_.original = r.data;
        return {};
      case 'R':
      case 'D':
      case '/':
        recipient(r);
        return {};
      case 'L':
        file_.filter = r.data;
        return {};
      case '>':
        file_.redirect = r.data;
        return {};
      case 'V':
        file_.verp = r.data;
        return {};
      case 'W':
        // Set to 0 once the sender was warned.
        file_.warned = number<std::int64_t>(r.data) == 0;
        return {};
      case 'o':
        next_.orcpt = r.data;
        return {};
      case 'n':
        return bits(r, r.data, next_.notify);
      case 'i':
        file_.envid = r.data;
        return {};
      case '<':
        return bits(r, r.data, file_.ret);
      case 'c':  // creation: the same as the attribute
      case 'I':  // the filter of old versions
      case 'K':  // of no effect any more
      case 'f':
      case 'd':
      case 'r':
      case 'e':
      case 'P':
      case 'w':
        return {};
      default:
        return fail(at(FileError::damaged, r.offset, fmt::format("a record of type {}", printable({&r.type, 1}))));
    }
  }

  Result<void> content(const Record& r) {
    switch (r.type) {
      case 'N':
      case 'L':
        file_.content_size += r.data.size() + (r.type == 'N' ? 1 : 0);
        if (r.type == 'N') ++file_.content_lines;
        open_line_ = r.type == 'L';
        if (content_) content_(r.data, r.type == 'N');
        return {};
      case 'w':  // room that a filter left
        return {};
      case 'X':
        if (open_line_) {
          ++file_.content_lines;
          ++file_.content_size;
          if (content_) content_({}, true);
        }
        part_ = Part::extracted;
        return {};
      default:
        return fail(
            at(FileError::damaged, r.offset, fmt::format("a record of type {} in content", printable({&r.type, 1}))));
    }
  }

  Result<void> size(const Record& r) {
    constexpr std::size_t kWide = 15;
    // message size, data offset, recipients, flags, content length, options of MAIL
    const auto field = [&](std::size_t i) {
      const std::size_t from = i * (kWide + 1);
      return from < r.data.size() ? number<std::uint64_t>(r.data.substr(from, kWide)) : std::optional<std::uint64_t>();
    };
    file_.message_size = field(0);
    if (!first_ || !file_.message_size) return fail(at(FileError::damaged, r.offset, "a size that is none"));
    file_.smtputf8 = static_cast<unsigned>(field(5).value_or(0) & 15U);
    return {};
  }

  Result<void> time(const Record& r) {
    const auto space = r.data.find(' ');
    const auto whole = number<std::int64_t>(r.data.substr(0, space));
    const auto part =
        space == std::string_view::npos ? std::optional(std::int64_t{0}) : number<std::int64_t>(r.data.substr(space));
    // Beyond: no time that a computer had.
    constexpr std::int64_t kMost = std::int64_t{1} << 36;
    if (!whole || !part || *whole < 0 || *whole > kMost || *part < 0 || *part > 999'999)
      return fail(at(FileError::damaged, r.offset, "a time that is none"));
    if (!file_.arrival) file_.arrival = WallTime(seconds(*whole)) + microseconds(*part);
    return {};
  }

  Result<void> attribute(const Record& r) {
    const auto equals = r.data.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return fail(at(FileError::damaged, r.offset, "an attribute without a value"));
    const auto name = r.data.substr(0, equals);
    const auto value = r.data.substr(equals + 1);
    if (name == "notify_flags") return bits(r, value, next_.notify);
    if (name == "ret_flags") return bits(r, value, file_.ret);
    if (name == "dsn_orig_rcpt")
      next_.orcpt = value;
    else if (name == "envelope_id")
      file_.envid = value;
    else
      file_.attributes.insert_or_assign(std::string(name), std::string(value));
    return {};
  }

  Result<void> bits(const Record& r, std::string_view text, unsigned& into) {
    const auto value = number<unsigned>(text);
    if (!value || *value > 15) return fail(at(FileError::damaged, r.offset, "flags that are none"));
    into = *value;
    return {};
  }

  void recipient(const Record& r) {
    next_.address = r.data;
    next_.done = r.type != 'R';
    next_.offset = r.offset;
    file_.recipients.push_back(std::exchange(next_, {}));
  }

  Records records_;
  const ContentSink& content_;
  QueueFile file_;
  Recipient next_;
  Part part_ = Part::envelope;
  bool first_ = true, sender_ = false, open_line_ = false;
};

}  // namespace

std::string_view error_module(FileError) { return "postfix queue"; }

std::string_view describe(FileError e) {
  switch (e) {
    case FileError::not_ours:
      return "no message of Postfix";
    case FileError::cut_short:
      return "the file is cut short";
    case FileError::damaged:
      return "the file is damaged";
    case FileError::circular:
      return "the file leads in circles";
    case FileError::too_large:
      return "the file is too large";
  }
  return "?";
}

std::string_view QueueFile::attribute(std::string_view name) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? std::string_view() : std::string_view(found->second);
}

Result<QueueFile> read_queue_file(std::string_view bytes, const ContentSink& content) {
  if (bytes.size() > kMaxFile) return fail(FileError::too_large);
  // The size, which cleanup writes first, or what postdrop begins with.
  if (!bytes.empty() && std::string_view("CTAc").find(bytes.front()) == std::string_view::npos)
    return fail(FileError::not_ours);
  return Reader(bytes, content).read();
}

std::vector<Reason> read_reasons(std::string_view text) {
  std::vector<Reason> found;
  Reason next;
  const auto end = [&] {
    if (!next.recipient.empty() && !next.text.empty() && found.size() < kMaxReasons) found.push_back(next);
    next = {};
  };
  while (!text.empty()) {
    const auto lf = text.find('\n');
    const std::string_view line = text.substr(0, lf);
    text.remove_prefix(lf == std::string_view::npos ? text.size() : lf + 1);
    const auto equals = line.find('=');
    // An empty line between entries; <recipient>: reason, which the fields repeat.
    if (line.empty()) end();
    if (equals == std::string_view::npos || line.starts_with('<')) continue;
    const auto name = line.substr(0, equals), value = line.substr(equals + 1);
    if (name == "recipient") next.recipient = value;
    if (name == "offset") next.offset = number<std::uint64_t>(value).value_or(0);
    if (name == "status") next.status = value;
    if (name == "reason") next.text = value;
  }
  end();
  return found;
}

}  // namespace pen::postfix_queue
