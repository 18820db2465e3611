#include "lib/config/master_cf.h"

#include <algorithm>
#include <array>

#include "lib/base/text.h"
#include "lib/config/values.h"

namespace pen::config {
namespace {

constexpr std::array<std::string_view, 5> kTypes = {"inet", "unix", "fifo", "pass", "unix-dgram"};

// Sentences for `penstock check`, in the order of a usual master.cf.
constexpr ProgramNote kNotes[] = {
    {"cleanup", true, "its work is done inside smtpd and every other program that takes mail in"},
    {"oqmgr", true, "qmgr has one scheduler; the service is run by qmgr"},
    {"flush", true, "qmgr itself knows which messages wait for a destination"},
    {"scache", true, "qmgr shares connections between messages; no cache program is needed"},
    {"showq", true, "qmgr itself lists the queue"},
    {"tlsmgr", true, "programs keep their TLS sessions themselves"},
    {"proxymap", true, "each program opens its tables itself"},
    {"postlogd", true, "each program writes maillog_file itself"},
    {"rewrite", true, "the program is called trivial-rewrite"},
    {"nbdb_reindexd", true, "hash and btree tables are served as lmdb"},
    {"postscreen", true, "smtpd itself tests clients, where an inet service has this command"},
    {"dnsblog", true, "smtpd asks DNS lists itself, those of postscreen too"},
    {"tlsproxy", true, "programs speak TLS themselves, smtpd also with clients that it tests"},
};
constexpr std::array<std::string_view, 23> kOwn = {
    "smtpd", "qmgr",   "trivial-rewrite", "smtp",      "lmtp",   "local",    "virtual", "bounce",
    "error", "retry",  "discard",         "anvil",     "tlsrpt", "dmarcrpt", "pickup",  "pipe",
    "spawn", "verify", "penapi",          "penevents", "keys",   "qmqpd",    "cyrus"};

/// Columns and arguments: splits at blanks outside braces, which may stand within a word, name={ a b }.
std::vector<std::string_view> fields(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t i = 0;
  while (i < text.size()) {
    if (ascii_space(text[i])) {
      ++i;
      continue;
    }
    const std::size_t start = i;
    for (unsigned depth = 0; i < text.size() && (depth != 0 || !ascii_space(text[i])); ++i) {
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && depth != 0) --depth;
    }
    out.push_back(text.substr(start, i - start));
  }
  return out;
}

std::string_view without_braces(std::string_view text) {
  if (text.size() >= 2 && text.front() == '{' && text.back() == '}') return trim(text.substr(1, text.size() - 2));
  return text;
}

/// Reads "y", "n" or "-"; false: another word.
bool flag(std::string_view word, bool& value) {
  if (word == "-") return true;
  if (word != "y" && word != "n") return false;
  value = word == "y";
  return true;
}

bool number(std::string_view word, int& value) {
  const auto n = parse_unsigned(word);
  if (!n || *n > 1'000'000'000ULL) return false;
  value = static_cast<int>(*n);
  return true;
}

/// Takes the -o options out of args. Returns an error text, or empty.
std::string take_overrides(const std::vector<std::string_view>& args, Service& service) {
  bool options = true;  // -o after the first plain argument belongs to the command
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    if (options && (arg == "-o" || (arg.starts_with("-o") && arg.size() > 2))) {
      if (arg == "-o" && i + 1 == args.size()) return "-o is not followed by name=value";
      const std::string_view text = arg == "-o" ? args[++i] : arg.substr(2);
      Assignment assignment;
      assignment.line = service.line;
      if (auto error = parse_assignment(without_braces(text), assignment); !error.empty())
        return "-o: " + error + "; a value with blanks needs { name = value }";
      service.overrides.push_back(std::move(assignment));
      continue;
    }
    if (!arg.starts_with('-')) options = false;
    service.arguments.emplace_back(without_braces(arg));
  }
  return {};
}

/// Programs of ours have no command but for pipe and spawn. A word that is no option is a list without its commas, and
/// neither it nor the options behind it would count: the service would let through what they refuse.
std::string stray_word(const Service& service) {
  constexpr std::string_view kOptions = "cdDilmnostuvVz";  // of Postfix's programs
  if (service.command == "pipe" || service.command == "spawn") return {};
  if (!is_own_program(service.command) && note_on_program(service.command) == nullptr) return {};
  for (const std::string& word : service.arguments) {
    if (!word.starts_with('-') || word.size() == 1)
      return "\"" + printable(word, 60) +
             "\" is no option: write { name = value } for a value with blanks, and a list without blanks";
    if (word.find_first_not_of(kOptions, 1) != std::string::npos)
      return "the option " + printable(word, 60) + " is none that a program has";
  }
  return {};
}

std::string parse_service(std::string_view text, Service& service) {
  const auto words = fields(text);
  if (words.size() < 8)
    return "eight columns are expected (name type private unpriv chroot wakeup maxproc command), there are " +
           std::to_string(words.size());
  service.columns.assign(words.begin(), words.begin() + 8);
  service.words.assign(words.begin() + 8, words.end());
  service.name = words[0];
  const auto type = std::ranges::find(kTypes, words[1]);
  if (type == kTypes.end())
    return "the type \"" + printable(words[1], 40) + "\" is none of inet, unix, fifo, pass, unix-dgram";
  service.type = static_cast<ServiceType>(type - kTypes.begin());
  service.is_private = service.type != ServiceType::inet;
  const auto bad_column = [&](std::size_t i, const char* name, const char* want) {
    return std::string("the column ") + name + " is \"" + printable(words[i], 40) + "\" where " + want + " is expected";
  };
  if (!flag(words[2], service.is_private)) return bad_column(2, "private", "y, n or -");
  if (service.type == ServiceType::inet && service.is_private) return "an inet service cannot be private: write n";
  if (!flag(words[3], service.unprivileged)) return bad_column(3, "unpriv", "y, n or -");
  if (!flag(words[4], service.chroot)) return bad_column(4, "chroot", "y, n or -");
  std::string_view wakeup = words[5];
  if (wakeup.ends_with('?')) {
    service.wakeup_if_used = true;
    wakeup.remove_suffix(1);
  }
  if (wakeup != "-" && !number(wakeup, service.wakeup_seconds))
    return bad_column(5, "wakeup", "a number of seconds, also with ?, or -");
  int limit = 0;
  if (words[6] != "-") {
    if (!number(words[6], limit)) return bad_column(6, "maxproc", "a number or -");
    service.process_limit = limit;
  }
  service.command = words[7];
  if (service.command.find('/') != std::string::npos)
    return "the command \"" + printable(service.command, 60) + "\" must not have a directory";
  if (auto error = take_overrides({words.begin() + 8, words.end()}, service); !error.empty()) return error;
  return stray_word(service);
}

}  // namespace

std::string_view to_word(ServiceType type) { return kTypes[static_cast<std::size_t>(type)]; }

std::string Service::label() const { return name + "/" + std::string(to_word(type)); }

std::vector<Service> parse_master_cf(std::string_view text, const std::string& file, Problems& problems) {
  std::vector<Service> services;
  for (const LogicalLine& line : logical_lines(text, file, problems)) {
    if (services.size() == kMaxServices) {
      problems.push_back(
          {Severity::error, file, line.first, "", "there are more than " + std::to_string(kMaxServices) + " services"});
      break;
    }
    Service service;
    service.line = line.first;
    if (auto error = parse_service(line.text, service); !error.empty()) {
      problems.push_back({Severity::error, file, line.first, "", std::move(error)});
      continue;
    }
    const auto same = std::ranges::find_if(
        services, [&](const Service& other) { return other.name == service.name && other.type == service.type; });
    if (same == services.end()) {
      services.push_back(std::move(service));
      continue;
    }
    problems.push_back({Severity::warning, file, service.line, service.label(),
                        "the service stands in line " + std::to_string(same->line) + " already; this one is used"});
    *same = std::move(service);
  }
  return services;
}

const ProgramNote* note_on_program(std::string_view program) {
  const auto found = std::ranges::find(kNotes, program, &ProgramNote::program);
  return found == std::end(kNotes) ? nullptr : found;
}

bool is_own_program(std::string_view program) { return std::ranges::find(kOwn, program) != kOwn.end(); }

}  // namespace pen::config
