#include "tools/map_tool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/base64.h"
#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/map/cdb_file.h"
#include "lib/map/database_table.h"
#include "lib/map/debug_map.h"
#include "lib/map/file_map.h"
#include "lib/map/lmdb_file.h"
#include "lib/map/map.h"
#include "lib/suite/service/approved_tables.h"
#include "lib/suite/service/as_account.h"
#include "lib/suite/service/setup.h"
#include "tools/map_message.h"
#include "tools/map_options.h"
#include "tools/own_tables.h"
#include "tools/progress_bar.h"

namespace pen::tools {
namespace {

using Invocation = MapOptions;

struct Spec {
  std::string type, file;
  std::string text() const { return type + ":" + file; }
  std::string path() const { return file + (cdb() ? ".cdb" : ".lmdb"); }
  bool cdb() const { return type == "cdb"; }
  bool indexed() const { return type == "lmdb" || type == "hash" || type == "btree" || cdb(); }
};

void complain(const Invocation& in, std::string_view level, std::string_view text) {
  std::fprintf(stderr, "%s: %.*s: %.*s\n", in.name, static_cast<int>(level.size()), level.data(),
               static_cast<int>(text.size()), text.data());
}
int failed(const Invocation& in, const Error& error) {
  complain(in, "fatal", error.message());
  if (error.is_errno(ENOENT)) return EX_NOINPUT;
  if (error.is_errno(EACCES) || error.is_errno(EPERM)) return EX_NOPERM;
  if (error.sys_errno() != 0) return EX_IOERR;
  return EX_DATAERR;
}

Result<Spec> parse_spec(const Invocation& in, const std::string& text) {
  const auto colon = text.find(':');
  if (colon != std::string::npos) return Spec{text.substr(0, colon), text.substr(colon + 1)};
  PEN_TRY_ASSIGN(const auto config, config::inspect(config::config_directory(in.directory)));
  return Spec{config.settings().default_database_type, text};
}

/// Shows the progress of a large table: sorting the entries is one half of the work, writing them the other.
class TableBar {
 public:
  explicit TableBar(const std::string& what) : bar_(what, ProgressBar::patient("entry", "entries")) {}
  /// Valid as long as this object.
  map::Progress progress() {
    return [this](std::size_t done, std::size_t of) { bar_.show(done, of, done <= of / 2 ? done : done - of / 2); };
  }
  void clear() { bar_.clear(); }

 private:
  ProgressBar bar_;
};

std::string all_of_stdin() {
  std::string text, chunk(65536, '\0');
  std::size_t got = 0;
  while ((got = std::fread(chunk.data(), 1, chunk.size(), stdin)) > 0 && text.size() < map::kMaxFile)
    text.append(chunk, 0, got);
  return text;
}

/// The reason why there is no file to make.
std::string not_made(const std::string& type) {
  static constexpr std::string_view kTexts[] = {"cidr", "pcre", "regexp", "texthash"};
  const auto known = map::known_types();
  if (std::ranges::find(known, type) == known.end()) return ": there is no such type of table";
  if (std::ranges::find(kTexts, type) != std::end(kTexts))
    return ": tables of this type are not made, the text is read as it is";
  return ": tables of this type are not made, they have no file";
}

/// -F: joins the files that a value names, with line ends between them, and encodes them in base 64. Errors:
/// unreadable, too_large, syntax.
Result<std::string> files_in_base64(const std::string& names) {
  std::string content;
  bool first = true;
  for (const std::string& name : split_list(names)) {
    if (!std::exchange(first, false)) content += '\n';
    PEN_TRY_ASSIGN(const std::string one, map::read_table_file(name));
    if (content.size() + one.size() > map::kMaxValue) return fail(map::MapError::too_large, names);
    content += one;
  }
  if (first) return fail(map::MapError::syntax, "no file is named");
  std::string coded = base64_encode(content);
  if (coded.size() > map::kMaxValue) return fail(map::MapError::too_large, names);
  return coded;
}

service::Account owner_of_file(const struct stat& file) { return {file.st_uid, file.st_gid}; }

/// Whose rights the table is made with: those of the text's owner. source: of the text; nullptr: there is none. In a
/// directory of somebody else's root makes nothing, since its owner can put another file in place of the table.
std::optional<service::Account> maker_of(const std::string& table, const struct stat* source) {
  if (source != nullptr && source->st_uid != 0) return owner_of_file(*source);
  struct stat where{};
  const std::string directory = std::filesystem::path(table).parent_path();
  if (::stat(directory.empty() ? "." : directory.c_str(), &where) == 0 && where.st_uid != 0)
    return owner_of_file(where);
  return source == nullptr ? std::nullopt : std::optional(owner_of_file(*source));
}

/// Warns that another user can replace what root makes there, and then chooses what the mail system believes.
void warn_of_directory(const Invocation& in, const std::string& table) {
  struct stat where{};
  const std::string directory = std::filesystem::path(table).parent_path();
  if (::geteuid() != 0 || ::stat(directory.empty() ? "." : directory.c_str(), &where) != 0 || where.st_uid == 0) return;
  complain(in, "warning",
           fmt::format("{} belongs to root, its directory to uid {}, who can replace it: give the text, the table and "
                       "the directory the same owner",
                       table, where.st_uid));
}

/// The text that a table is made from.
struct SourceText {
  std::string text;
  std::string name;                 // of the file that says whose the table is
  std::optional<struct stat> file;  // nullopt: there is none, and the text came from standard input
};

/// One descriptor for all questions about the text: its owner may replace the file meanwhile. From standard input (-i)
/// the text's file says whose the table is, or the table itself, if one of them is there.
Result<SourceText> read_source(const Spec& spec, bool from_stdin) {
  SourceText source{{}, spec.file, {}};
  const int flags = O_CLOEXEC | (from_stdin ? O_PATH : O_RDONLY | O_NONBLOCK);
  Fd file(::open(source.name.c_str(), flags));
  if (!file && from_stdin && errno == ENOENT) {
    source.name = spec.path();
    file = Fd(::open(source.name.c_str(), flags));
  }
  struct stat found{};
  if (file ? ::fstat(file.get(), &found) != 0 : !from_stdin || errno != ENOENT)
    return fail_errno("open " + source.name);
  if (file) source.file = found;
  if (from_stdin) {
    source.text = all_of_stdin();
  } else {
    PEN_TRY_ASSIGN(source.text, map::read_table_file(file.get(), spec.file));
  }
  return source;
}

/// Each value becomes the content of the files that it names (-F). An entry with a file that cannot be read is left
/// out, with a warning.
void read_values(const Invocation& in, const std::string& shown, map::TableText& table) {
  std::erase_if(table.entries, [&](map::TableEntry& entry) {
    if (in.other_values_stay && !entry.value.starts_with('/')) return false;
    auto content = files_in_base64(entry.value);
    if (content)
      entry.value = *std::move(content);
    else
      table.warnings.push_back(shown + ", line " + std::to_string(entry.line) + ": " + content.error().message() +
                               ": skipping this entry");
    return !content;
  });
}

int build(const Invocation& in, const Spec& spec, Source kind) {
  if (!spec.indexed()) {
    complain(in, "fatal", spec.text() + not_made(spec.type));
    return EX_USAGE;
  }
  TableBar bar("Making " + spec.path());
  const bool from_stdin = in.incremental;
  const auto source = read_source(spec, from_stdin);
  if (!source) return failed(in, source.error());
  map::BuildOptions options = in.build;
  options.start_from_old = in.incremental;
  if (source->file && in.inherit_mode) options.mode = (source->file->st_mode & 0666) | 0600;

  // The writer of the text chose the names in it: root must not read files for that writer.
  std::optional<service::AsAccount> owner;
  if (const auto maker = maker_of(spec.path(), source->file ? &*source->file : nullptr); maker && !in.keep_root)
    owner.emplace(*maker);
  if (owner && !owner->ok()) return failed(in, Error::from_errno(errno, "become the owner of " + source->name));
  warn_of_directory(in, spec.path());
  const std::string shown = from_stdin ? "standard input" : spec.file;
  map::TableText table =
      kind == Source::aliases ? map::parse_aliases(source->text, shown) : map::parse_table(source->text, shown);
  if (in.values_are_files) read_values(in, shown, table);
  for (const auto* said : {&table.warnings, &table.doubts})
    for (const auto& warning : *said) complain(in, "warning", warning);

  options.progress = bar.progress();
  auto warnings = spec.cdb() ? map::build_cdb(spec.path(), table.entries, shown, options)
                             : map::build_lmdb(spec.path(), table.entries, shown, options);
  bar.clear();
  if (!warnings) return failed(in, warnings.error());
  for (const auto& warning : *warnings) complain(in, "warning", warning);
  return EX_OK;
}

/// Makes one of the configuration's tables. One with private keys in it is for root, and for the programs that it is
/// lent to.
int build_own(const Invocation& in, const OwnTable& table) {
  Invocation how = in;
  if (table.of_files) {
    how.values_are_files = how.other_values_stay = true;
    how.inherit_mode = false;
    how.build.mode = 0600;
  }
  return build(how, {table.type, table.text}, table.aliases ? Source::aliases : Source::table);
}

/// Makes every table of the configuration from its text, and prints a line for each. Continues after a failure;
/// returns the first failure's status.
int build_all(const Invocation& in) {
  const auto config = config::inspect(config::config_directory(in.directory));
  if (!config) {
    complain(in, "fatal", config.error().message());
    return EX_CONFIG;
  }
  int worst = EX_OK;
  std::size_t made = 0, failed_ones = 0;
  for (const OwnTable& table : own_tables(*config)) {
    if (!table.has_text() && table.is_made()) {
      std::printf("%s: kept, there is no %s to make it from\n", table.file().c_str(), table.text.c_str());
      continue;
    }
    const int status = build_own(in, table);
    ++(status == EX_OK ? made : failed_ones);
    if (worst == EX_OK) worst = status;
    if (status == EX_OK) std::printf("%s: made\n", table.file().c_str());
    std::fflush(stdout);
  }
  std::printf("%zu made, %zu failed\n", made, failed_ones);
  return worst;
}

/// A value as it is printed. Errors: with -F, a value that is no base 64.
Result<std::string> shown_value(const Invocation& in, const std::string& key, std::string value) {
  if (!in.values_are_files) return value;
  auto decoded = base64_decode(value);
  if (!decoded) return fail(map::MapError::syntax, "value of " + key + " (-F): neither base 64 nor made by -F");
  return *std::move(decoded);
}

/// False: standard output cannot be written to any more.
bool print(const Invocation& in, std::string_view key, std::string_view value, bool with_key) {
  std::string line;
  if (in.json) {
    const auto quoted = [](std::string_view text) {
      return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    line = "{" + quoted(key) + ": " + quoted(value) + "}";  // as postmap -j writes it
  } else {
    if (with_key) line.append(key).append(in.source == Source::aliases ? ":\t" : "\t");
    line += value;
  }
  line += '\n';
  return std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
}

/// Looks up one key in every table in turn. 0: found, 1: not found, else a failure.
int ask(const Invocation& in, const std::vector<std::shared_ptr<map::Map>>& tables, const std::string& key,
        bool print_key) {
  for (const auto& table : tables) {
    auto value = table->lookup(key);
    if (!value) {
      complain(in, "fatal", std::move(value).error().within(table->name()).message());
      return EX_TEMPFAIL;
    }
    if (!*value) continue;
    auto shown = shown_value(in, key, **std::move(value));
    if (!shown) return failed(in, std::move(shown).error().within(table->name()));
    return print(in, key, *shown, print_key) ? EX_OK : EX_IOERR;
  }
  return 1;
}
int query(const Invocation& in, const std::vector<Spec>& specs) {
  std::vector<std::shared_ptr<map::Map>> tables;
  map::OpenOptions options;
  options.fold_keys = in.build.fold_keys;
  // Only tables of the old form, mysql:name, need main.cf: the others work without one.
  map::database::ask_main_cf([&in](const std::string& name) -> std::optional<std::string> {
    const auto config = config::inspect(config::config_directory(in.directory));
    return config ? config->text(name) : std::nullopt;
  });
  map::approve_proxied([&in](const std::string& table) {
    const auto config = config::inspect(config::config_directory(in.directory));
    return !config || service::approves(*config, table);
  });
  if (const auto config = config::inspect(config::config_directory(in.directory)))
    if (const auto applied = service::apply_settings(config->settings()); !applied) return failed(in, applied.error());
  map::on_debug_look_up([&in](const std::string& line) { std::fprintf(stderr, "%s: %s\n", in.name, line.c_str()); });
  for (const auto& spec : specs) {
    auto opened = map::open(spec.text(), options);
    if (!opened) return failed(in, opened.error());
    for (const std::string& note : (*opened)->notes()) complain(in, "warning", spec.text() + ": " + note);
    tables.push_back(*std::move(opened));
  }
  if (*in.query != "-") return ask(in, tables, *in.query, false);
  int status = 1;
  const auto one = [&](const std::string& key) {
    const int found = ask(in, tables, key, true);
    if (found != 1) status = found;
    return found <= 1;
  };
  if (in.message.header || in.message.body) {
    each_key(std::cin, in.message, one);
    return status;
  }
  for (std::string line; std::getline(std::cin, line) && one(line);) {
  }
  return status;
}

int remove(const Invocation& in, const Spec& spec) {
  if (!spec.indexed()) {
    complain(in, "fatal", spec.text() + ": tables of this type cannot be changed");
    return EX_USAGE;
  }
  std::vector<std::string> keys;
  if (*in.remove == "-") {
    std::string line;
    while (std::getline(std::cin, line)) keys.push_back(line);
  } else {
    keys.push_back(*in.remove);
  }
  struct stat source{};
  if (::stat(spec.path().c_str(), &source) != 0) return failed(in, Error::from_errno(errno, "open " + spec.path()));
  std::optional<service::AsAccount> owner;
  if (const auto maker = maker_of(spec.path(), &source); maker && !in.keep_root) owner.emplace(*maker);
  if (owner && !owner->ok()) return failed(in, Error::from_errno(errno, "become the owner of " + spec.path()));
  const bool fold = in.build.fold_keys;
  TableBar bar("Making " + spec.path());
  auto removed = spec.cdb() ? map::remove_from_cdb(spec.path(), keys, fold, bar.progress())
                            : map::remove_from_lmdb(spec.path(), keys, fold, bar.progress());
  bar.clear();
  if (!removed) return failed(in, removed.error());
  return *removed != 0 ? EX_OK : 1;
}

int list(const Invocation& in, const Spec& spec) {
  int status = EX_OK;
  const auto show = [&](std::string_view key, std::string_view value) {
    auto shown = shown_value(in, std::string(key), std::string(value));
    if (!shown) {
      status = failed(in, std::move(shown).error().within(spec.text()));
      return true;
    }
    return print(in, key, *shown, true);
  };
  const auto show_all = [&](auto file) {
    if (!file) return failed(in, file.error());
    auto done = (*file)->each(show);
    return done ? status : failed(in, done.error());
  };
  if (spec.cdb()) return show_all(map::CdbFile::open(spec.path()));
  if (spec.indexed()) return show_all(map::LmdbFile::open(spec.path()));
  if (spec.type == "texthash") {
    auto text = map::read_table_file(spec.file);
    if (!text) return failed(in, text.error());
    map::Content content;
    const auto warnings =
        map::merge(content, map::parse_table(*text, spec.file).entries, spec.file, map::kMaxKey, in.build);
    if (!warnings) return failed(in, warnings.error());
    for (const auto& warning : *warnings) complain(in, "warning", warning);
    for (const auto& [key, value] : content)
      if (!show(key, value)) break;
    return status;
  }
  complain(in, "fatal", spec.text() + ": tables of this type cannot be listed");
  return EX_USAGE;
}

}  // namespace

int map_tool(int argc, char** argv, const char* name, Source source) {
  const auto read = MapOptions::read(argc, argv, name, source);
  if (!read) return read.error().print();
  const Invocation& in = *read;
  std::vector<Spec> specs;
  for (const auto& text : in.tables) {
    auto spec = parse_spec(in, text);
    if (!spec) {  // the only cause here is an unreadable configuration
      complain(in, "fatal", spec.error().message());
      return service::own_status(EX_CONFIG);
    }
    specs.push_back(*std::move(spec));
  }
  int worst = EX_OK;
  if (in.all) {
    worst = build_all(in);
  } else if (in.query) {
    worst = query(in, specs);
  } else {
    bool any_removed = false;
    for (const auto& spec : specs) {
      const int status = in.remove ? remove(in, spec) : in.list ? list(in, spec) : build(in, spec, in.source);
      any_removed = any_removed || status == EX_OK;
      if (status > 1 || (status == 1 && !in.remove)) worst = status;
    }
    if (in.remove && !any_removed && worst == EX_OK) worst = 1;
  }
  if (std::fflush(stdout) != 0 && worst == EX_OK) worst = EX_IOERR;
  return service::own_status(worst);
}

void renew_stale_tables(const config::Config& config) {
  Invocation in;
  in.name = "penstock";
  for (const OwnTable& table : own_tables(config)) {
    if (!table.is_stale()) continue;
    const int status = build_own(in, table);
    complain(in, status == EX_OK ? "note" : "warning",
             table.file() + (status != EX_OK ? " is older than its text, and stays in use as it is"
                             : table.of_files
                                 ? " was made anew, for its text or a file that the text names has been changed since"
                                 : " was made anew, for its text has been changed since"));
  }
}

}  // namespace pen::tools
