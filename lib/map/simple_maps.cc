#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/idn/fold.h"
#include "lib/base/text.h"
#include "lib/map/file_map.h"
#include "lib/map/passed_over.h"
#include "lib/map/source.h"
#include "lib/map/table_text.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

struct TextHashView {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Entries = std::unordered_map<std::string, std::string, TextHashView, std::equal_to<>>;

Value find_in(const Entries& entries, std::string_view key, bool fold) {
  const auto found = fold ? entries.find(idn::fold(key)) : entries.find(key);
  if (found == entries.end()) return std::nullopt;
  return found->second;
}

struct TextTable {
  std::string path;
  Entries entries;
  PassedOver passed_over;
  std::vector<std::string> notes() const { return passed_over.notes(path); }
};

Result<std::shared_ptr<TextTable>> load_text(const std::string& path, bool fold) {
  PEN_TRY_ASSIGN(const std::string text, read_table_file(path));
  auto parsed = parse_table(text, path);
  auto table = std::make_shared<TextTable>();
  table->path = path;
  for (auto& warning : parsed.warnings) table->passed_over.add(std::move(warning));
  for (auto& e : parsed.entries) {  // of equal keys the first one stays
    if (!table->entries.try_emplace(fold ? idn::fold(e.key) : e.key, std::move(e.value)).second)
      table->passed_over.add(duplicate_note(path, e));
  }
  return table;
}
Result<std::shared_ptr<TextTable>> load_folded(const std::string& path) { return load_text(path, true); }
Result<std::shared_ptr<TextTable>> load_exact(const std::string& path) { return load_text(path, false); }

class TextHashMap final : public Map {
 public:
  TextHashMap(std::string spec, const std::string& path, const OpenOptions& options)
      : Map(std::move(spec)),
        fold_(options.fold_keys),
        file_(path, *options.clock, fold_ ? &load_folded : &load_exact) {}
  Value find(std::string_view key) override {
    if (key.size() > kMaxKey) return std::nullopt;
    PEN_TRY_ASSIGN(const auto table, file_.current());
    return find_in(table->entries, key, fold_);
  }
  std::optional<std::uint32_t> owner() override { return file_.owner(); }
  std::optional<Error> problem() override {
    auto table = file_.current();
    if (table) return std::nullopt;
    return std::move(table).error();
  }
  std::vector<std::string> notes() override {
    const auto table = file_.current();
    return table ? (*table)->notes() : std::vector<std::string>();
  }

 private:
  bool fold_;
  Reloading<TextTable> file_;
};

class InlineMap final : public Map {
 public:
  InlineMap(std::string spec, Entries entries, bool fold)
      : Map(std::move(spec)), entries_(std::move(entries)), fold_(fold) {}
  Value find(std::string_view key) override { return find_in(entries_, key, fold_); }

 private:
  Entries entries_;
  bool fold_;
};

class StaticMap final : public Map {
 public:
  StaticMap(std::string spec, std::string value) : Map(std::move(spec)), value_(std::move(value)) {}
  Value find(std::string_view) override { return value_; }
  bool whole_key_only() const override { return true; }

 private:
  std::string value_;
};

class BrokenMap final : public Map {
 public:
  BrokenMap(std::string spec, Error why) : Map(std::move(spec)), why_(std::move(why)) {}
  Value find(std::string_view) override { return std::unexpected(why_); }
  std::optional<Error> problem() override { return why_; }

 private:
  Error why_;
};

/// The system's users or groups, by name.
class Accounts final : public Source {
 public:
  Accounts(std::string spec, bool groups) : Source(std::move(spec)), groups_(groups) {}
  Value ask_now(const std::string& name) const override {
    std::vector<char> buffer(16 * 1024);
    for (;;) {
      std::optional<std::string> line;
      const int code = groups_ ? group(name, buffer, line) : user(name, buffer, line);
      if (code == 0) return line;
      // Some name services report "not found" by one of these errors.
      if (code == ENOENT || code == ESRCH) return std::nullopt;
      if (code != ERANGE || buffer.size() > 4 * 1024 * 1024) {
        return fail(MapError::name_service, this->name() + ": " + name, code);
      }
      buffer.resize(buffer.size() * 2);
    }
  }

 private:
  static int user(const std::string& name, std::vector<char>& buffer, std::optional<std::string>& out) {
    passwd entry{};
    passwd* found = nullptr;
    const int code = getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found != nullptr) {
      out = std::string(entry.pw_name) + ":*:" + std::to_string(entry.pw_uid) + ":" + std::to_string(entry.pw_gid) +
            ":" + (entry.pw_gecos != nullptr ? entry.pw_gecos : "") + ":" +
            (entry.pw_dir != nullptr ? entry.pw_dir : "") + ":" + (entry.pw_shell != nullptr ? entry.pw_shell : "");
    }
    return code;
  }
  static int group(const std::string& name, std::vector<char>& buffer, std::optional<std::string>& out) {
    ::group entry{};
    ::group* found = nullptr;
    const int code = getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found != nullptr) {
      std::string line = std::string(entry.gr_name) + ":*:" + std::to_string(entry.gr_gid) + ":";
      for (char** member = entry.gr_mem; member != nullptr && *member != nullptr; ++member) {
        if (member != entry.gr_mem) line += ',';
        line += *member;
      }
      out = std::move(line);
    }
    return code;
  }
  bool groups_;
};

class AccountMap final : public Map {
 public:
  AccountMap(std::string spec, bool groups, bool fold)
      : Map(spec), source_(std::make_shared<Accounts>(std::move(spec), groups)), fold_(fold) {}
  bool blocking() const override { return true; }
  Value find(std::string_view key) override {
    if (key.empty() || key.size() > 256 || key.find('\0') != std::string_view::npos) return std::nullopt;
    return fold_ ? answer_from(source_, idn::fold(key)) : answer_from(source_, key);
  }

 private:
  std::shared_ptr<const Source> source_;
  bool fold_;
};

}  // namespace

std::string_view unbraced(std::string_view text) {
  text = trim(text);
  if (text.size() >= 2 && text.front() == '{' && text.back() == '}') return trim(text.substr(1, text.size() - 2));
  return text;
}

Result<std::string> read_table_file(int fd, const std::string& path) {
  std::string content;
  for (;;) {
    const std::size_t before = content.size();
    if (before > kMaxFile) return fail(MapError::too_large, path);
    const std::size_t step = std::max<std::size_t>(64 * 1024, before / 2);
    content.resize(before + step);
    const ssize_t got = ::read(fd, content.data() + before, step);
    const int error = errno;
    content.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return content;
    if (got < 0 && error != EINTR) return fail(MapError::unreadable, "read " + path, error);
  }
}

std::shared_ptr<Map> make_texthash(std::string spec, const std::string& name, const OpenOptions& options) {
  return std::make_shared<TextHashMap>(std::move(spec), name, options);
}

Result<std::shared_ptr<Map>> make_inline(std::string spec, const std::string& name, const OpenOptions& options) {
  const auto bad = [&] { return fail(MapError::bad_spec, spec + ": expected inline:{ key=value, … }"); };
  Entries entries;
  std::string pending;  // "key" or "key =" of a pair written with white space around its =
  const auto add = [&](std::string_view pair) {
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos || trim(pair.substr(0, equals)).empty()) return false;
    std::string key(trim(pair.substr(0, equals)));
    // of equal keys the last one stays
    entries.insert_or_assign(options.fold_keys ? idn::fold(key) : std::move(key), trim(pair.substr(equals + 1)));
    return true;
  };
  for (const auto& item : split_list(unbraced(name))) {
    if (item.front() == '{') {
      if (!pending.empty() || !add(unbraced(item))) return bad();
      continue;
    }
    pending += item;
    const auto equals = pending.find('=');
    if (equals == std::string::npos || equals + 1 == pending.size()) continue;
    if (!add(pending)) return bad();
    pending.clear();
  }
  if (!pending.empty()) return bad();
  return std::make_shared<InlineMap>(std::move(spec), std::move(entries), options.fold_keys);
}

std::shared_ptr<Map> make_static(std::string spec, const std::string& name) {
  return std::make_shared<StaticMap>(std::move(spec), std::string(unbraced(name)));
}
std::shared_ptr<Map> make_fail(std::string spec) {
  Error why(MapError::unreadable, spec);
  return std::make_shared<BrokenMap>(std::move(spec), std::move(why));
}
std::shared_ptr<Map> make_broken(std::string spec, Error why) {
  return std::make_shared<BrokenMap>(std::move(spec), std::move(why));
}
Result<std::shared_ptr<Map>> make_unix(std::string spec, const std::string& name, const OpenOptions& options) {
  if (name != "passwd.byname" && name != "group.byname") {
    return fail(MapError::bad_spec, spec + ": unix: has passwd.byname and group.byname");
  }
  return std::make_shared<AccountMap>(std::move(spec), name == "group.byname", options.fold_keys);
}

}  // namespace pen::map
