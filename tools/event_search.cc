#include "tools/event_search.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "lib/base/date.h"
#include "lib/base/folder.h"
#include "lib/base/text.h"
#include "tools/progress_bar.h"

namespace pen::tools {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLongestLine = 1 << 20;
constexpr unsigned kChunk = 256 * 1024;

std::string text_in(const ordered_json& event, const char* field) {
  const auto at = event.find(field);
  return at != event.end() && at->is_string() ? at->get<std::string>() : std::string();
}

/// Finds what every line holds that is about the message or the address: cheaper than to read its JSON.
class Mark {
 public:
  explicit Mark(const Sought& sought)
      : of_id_(!sought.queue_id.empty()),
        text_(of_id_ ? R"("queue_id":")" + sought.queue_id + '"'
                     : ordered_json(sought.address).dump(-1, ' ', false, ordered_json::error_handler_t::replace)),
        at_sign_(text_.rfind('@')) {}

  /// The place of the next one from `at` on; npos: none.
  std::size_t next(std::string_view lines, std::size_t at) const {
    if (of_id_ || at_sign_ == std::string::npos) {
      const void* hit = ::memmem(lines.data() + at, lines.size() - at, text_.data(), text_.size());
      if (hit == nullptr) return std::string_view::npos;
      return static_cast<std::size_t>(static_cast<const char*>(hit) - lines.data());
    }
    // In any case of its letters.
    for (std::size_t sign = lines.find('@', at + at_sign_); sign != std::string_view::npos;
         sign = lines.find('@', sign + 1))
      if (iequals(lines.substr(sign - at_sign_, text_.size()), text_)) return sign - at_sign_;
    return std::string_view::npos;
  }

 private:
  bool of_id_;
  std::string text_;
  std::size_t at_sign_;
};

struct DatedFile {
  std::string name;
  WallTime changed;
};

/// When penevents renamed a file, by its name: what comes then is its compression. nullopt: another has renamed it.
std::optional<WallTime> renamed_at(std::string_view name, const std::string& base) {
  // NAME.20261127-012024
  if (name.size() < base.size() + 16 || name[base.size() + 9] != '-') return std::nullopt;
  const std::string stamp(name.substr(base.size() + 1, 15));
  const auto part = [&](std::size_t from, std::size_t size) { return stamp.substr(from, size); };
  return parse_date_time(part(0, 4) + "-" + part(4, 2) + "-" + part(6, 2) + "T" + part(9, 2) + ":" + part(11, 2) + ":" +
                         part(13, 2) + "Z");
}

/// The newest first: the file that is written to, whatever its time; then those that were renamed.
Result<std::vector<DatedFile>> files_of(const Folder& folder, const std::string& base) {
  PEN_TRY_ASSIGN(const auto names, folder.names());
  std::vector<DatedFile> out;
  for (const std::string& name : names) {
    const bool renamed = name.starts_with(base + ".") || name.starts_with(base + "-");
    if ((name != base && !renamed) || name.ends_with(".tmp")) continue;
    PEN_TRY_ASSIGN(const auto status, folder.look(name));
    if (!status || !S_ISREG(status->st_mode)) continue;
    const WallTime changed = WallTime(seconds(status->st_mtim.tv_sec)) + microseconds(status->st_mtim.tv_nsec / 1000);
    out.push_back({name, renamed_at(name, base).value_or(changed)});
  }
  std::ranges::sort(out, std::greater(),
                    [&](const DatedFile& f) { return std::tuple(f.name == base, f.changed, f.name); });
  return out;
}

/// Reads a file, compressed or not, as pieces of whole lines.
Result<void> each_piece(const Folder& folder, const std::string& name,
                        const std::function<void(std::string_view)>& whole_lines) {
  auto fd = folder.file(name);
  if (!fd && fd.error().is_errno(ENOENT)) fd = folder.file(name + ".gz");  // penevents has compressed it meanwhile
  if (!fd) return std::unexpected(std::move(fd).error());
  const gzFile file = ::gzdopen(fd->get(), "rb");
  if (file == nullptr) return fail_errno(folder.path_of(name));
  (void)fd->release();
  const std::unique_ptr<gzFile_s, decltype([](gzFile f) { ::gzclose(f); })> closed(file);
  ::gzbuffer(file, kChunk);
  std::string piece(kLongestLine + kChunk, '\0');
  std::size_t held = 0;   // of the piece
  bool too_long = false;  // what was held of this line is gone
  for (;;) {
    const int n = ::gzread(file, piece.data() + held, kChunk);
    if (n < 0) {
      int code = 0;
      const char* text = ::gzerror(file, &code);
      return fail_errno(folder.path_of(name) + ": " + text, code == Z_ERRNO ? errno : EIO);
    }
    if (n == 0) {  // a last line without its end is still being written
      int code = 0;
      (void)::gzerror(file, &code);
      if (code == Z_BUF_ERROR) return fail_errno(folder.path_of(name) + ": it is cut short", EIO);
      return {};
    }
    held += static_cast<std::size_t>(n);
    std::string_view lines(piece.data(), held);
    const std::size_t end = lines.rfind('\n');
    if (end == std::string_view::npos) {
      if (held > kLongestLine) held = 0;
      too_long = too_long || held == 0;
      continue;
    }
    lines = lines.substr(0, end + 1);
    if (std::exchange(too_long, false)) lines.remove_prefix(lines.find('\n') + 1);
    whole_lines(lines);
    std::memmove(piece.data(), piece.data() + end + 1, held - end - 1);
    held -= end + 1;
  }
}

/// Those of one file, in their order.
Result<void> search_file(const Folder& folder, const std::string& name, const Sought& sought, std::size_t most,
                         std::deque<ordered_json>& found, bool& more) {
  const Mark mark(sought);
  return each_piece(folder, name, [&](std::string_view lines) {
    for (std::size_t at = 0; at < lines.size();) {
      const std::size_t place = mark.next(lines, at);
      if (place == std::string_view::npos) return;
      const std::size_t begin = lines.rfind('\n', place) + 1;  // npos + 1 is 0
      const std::size_t end = lines.find('\n', place);
      at = end + 1;
      auto event = ordered_json::parse(lines.substr(begin, end - begin), nullptr, false);
      if (!event.is_object() || !concerns(event, sought)) continue;
      found.push_back(std::move(event));
      if (found.size() <= most) continue;
      found.pop_front();
      more = true;
    }
  });
}

std::uint64_t id_of(const ordered_json& event) {
  const auto at = event.find("id");
  return at != event.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

bool begins(const ordered_json& event, const Sought& sought) {
  return !sought.queue_id.empty() && text_in(event, "type") == "received";
}

}  // namespace

bool concerns(const ordered_json& event, const Sought& sought) {
  if (!sought.queue_id.empty()) return text_in(event, "queue_id") == sought.queue_id;
  for (const char* field : {"from", "to", "orig_to"})
    if (iequals(text_in(event, field), sought.address)) return true;
  const auto several = event.find("recipients");
  return several != event.end() && several->is_array() && std::ranges::any_of(*several, [&](const ordered_json& one) {
           return one.is_string() && iequals(one.get_ref<const std::string&>(), sought.address);
         });
}

Result<FoundEvents> search_events(const std::string& path, const Sought& sought, std::size_t most) {
  const auto slash = path.rfind('/');
  PEN_TRY_ASSIGN(const auto folder, Folder::open(slash == std::string::npos ? "." : path.substr(0, slash + 1)));
  PEN_TRY_ASSIGN(const auto files, files_of(folder, path.substr(slash == std::string::npos ? 0 : slash + 1)));
  if (files.empty()) return fail_errno(path, ENOENT);
  FoundEvents out;
  std::optional<Error> why;
  std::size_t done = 0;
  ProgressBar bar("Looking through events", ProgressBar::patient("event found", "events found"));
  for (const auto& file : files) {
    std::deque<ordered_json> found;
    auto read = search_file(folder, file.name, sought, most, found, out.more);
    bar.show(++done, files.size(), out.events.size() + found.size());
    if (!read) {
      out.troubles.push_back(read.error().message());
      if (!why) why = std::move(read).error();
    }
    const bool begun = std::ranges::any_of(found, [&](const auto& event) { return begins(event, sought); });
    out.events.insert(out.events.end(), std::move_iterator(found.begin()), std::move_iterator(found.end()));
    if (begun) break;
    if (out.events.size() < most) continue;
    out.more = out.more || done < files.size();
    break;
  }
  bar.clear();
  if (out.troubles.size() == files.size()) return std::unexpected(*std::move(why));
  // A file that was renamed meanwhile was read twice.
  std::ranges::sort(out.events, {}, id_of);
  const auto twice = std::ranges::unique(out.events, {}, id_of);
  out.events.erase(twice.begin(), twice.end());
  if (out.events.size() > most) {
    out.events.erase(out.events.begin(), out.events.end() - static_cast<std::ptrdiff_t>(most));
    out.more = true;
  }
  return out;
}

}  // namespace pen::tools
