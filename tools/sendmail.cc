/// sendmail: submits mail, and what else programs expect of a command of that name. Manual: man/sendmail.1. Called
/// newaliases it makes the alias tables.
#include <fcntl.h>
#include <getopt.h>
#include <pwd.h>
#include <sysexits.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/mail/address.h"
#include "tools/sendmail_submit.h"
#include "tools/smtp_dialogue.h"

namespace {

using namespace pen;
using namespace pen::tools;

constexpr seconds kSmtpTimeout{300};  // RFC 5321 section 4.5.3.2.7

constexpr const char* kHelp =
    "usage: sendmail [OPTION ...] RECIPIENT ...       submit the message on standard input\n"
    "       sendmail [OPTION ...] -t [RECIPIENT ...]  the same, and to whom To:, Cc: and Bcc: "
    "name\n"
    "       sendmail -bv [OPTION ...] RECIPIENT ...   send no mail: report to the sender what "
    "would come of it\n"
    "       sendmail -bs                              speak SMTP on standard input and output\n"
    "       sendmail -bp | -bi | -bd | -q | -qI ID | -qR SITE\n"
    "       newaliases\n"
    "\n"
    "  -f ADDR, -r ADDR  envelope sender; default: the user\n"
    "  -F NAME           full name for a From: that is missing\n"
    "  -i, -oi           a line of one dot does not end the message\n"
    "  -t                recipients from the header; Bcc: is removed\n"
    "  -N LIST           notices: never, or some of success,failure,delay\n"
    "  -R full|hdrs      what a notice of failure returns\n"
    "  -V ID             envelope id for notices\n"
    "  -O requiretls=yes|no  every host on the way must offer REQUIRETLS\n"
    "  -O smtputf8=yes|no    the message is declared as one with addresses or a header in UTF-8\n"
    "  -G                from elsewhere: nothing is added to the header, nor rewritten in it\n"
    "  -B 7BIT|8BITMIME  body type\n"
    "  -C DIR            the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  -bp               list the queue (mailq)\n"
    "  -bi, -I           make the tables of alias_database (newaliases); -oA TABLE that one\n"
    "  -bd, -bl          start the mail system (penstock start)\n"
    "  -bh, -bH          nothing\n"
    "  -bm               submit a message, as without\n"
    "  -q                try every deferred message now; -qI ID one; -qR SITE those for a domain;\n"
    "                    -qTIME nothing\n"
    "  -v                print the queue id; report to the sender by mail how the first try went\n"
    "  -A, -c, -d, -e, -h, -L, -m, -n, other -O and -o, -p, -U, -x, -X  taken, and change nothing\n"
    "  --help, --version\n";

[[noreturn]] void die(int code, std::string_view text) {
  complain(text);
  std::exit(code);
}

/// Another command of the suite, which lies beside this one.
std::string beside(const char* name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) die(EX_OSERR, "/proc/self/exe: " + error.message());
  return (self.parent_path() / name).string();
}

[[noreturn]] void become(const char* name, std::vector<std::string> words) {
  const std::string path = beside(name);
  words.insert(words.begin(), name);
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  die(EX_UNAVAILABLE, "cannot run " + path + ": " + Error::from_errno(errno).message());
}

struct Invocation {
  char mode = 'm';        // of -b; q: the queue is to be tried
  bool interval = false;  // -q15m: how often a daemon looks at the queue
  std::string config_directory, flush_id, flush_site, alias_file;
  std::optional<std::string> sender;
  submission::Submission mail;
  Reading reading;
  bool verbose = false;
  std::string requiretls, smtputf8;  // the words of -O; empty: not given
};

std::uint8_t notify_of(std::string_view list) {
  std::uint8_t bits = 0;
  for (const auto& word : split_list(list)) {
    const std::uint8_t bit = iequals(word, "never")     ? mail::notify::kNever
                             : iequals(word, "success") ? mail::notify::kSuccess
                             : iequals(word, "failure") ? mail::notify::kFailure
                             : iequals(word, "delay")   ? mail::notify::kDelay
                                                        : std::uint8_t{0};
    if (bit == 0) die(EX_USAGE, "-N: not one of never, success, failure, delay: " + word);
    bits = static_cast<std::uint8_t>(bits | bit);
  }
  if (bits == 0 || ((bits & mail::notify::kNever) != 0 && bits != mail::notify::kNever))
    die(EX_USAGE, "-N: never, or some of success,failure,delay");
  return bits;
}

/// The last of -b, -I and -q counts; but a daemon tries the queue by itself, whichever of -bd and -q is first.
void take_mode(Invocation& v, char mode) {
  const bool daemon = v.mode == 'd' || v.mode == 'l', starts = mode == 'd' || mode == 'l';
  if ((daemon && mode == 'q') || (v.mode == 'q' && starts))
    complain("warning: -q is not used with -bd: the queue manager tries by itself");
  if (mode == 'v')
    v.mail.probe = true;
  else if (!daemon || mode != 'q')
    v.mode = mode;
}

void take_queue_option(Invocation& v, const char* argument) {
  const std::string word = argument != nullptr ? argument : "";
  if (word.empty()) {
    take_mode(v, 'q');
  } else if (ascii_digit(word.front())) {
    v.interval = true;
  } else if (word.starts_with('I')) {
    v.flush_id = word.substr(1);
  } else if (word.starts_with('R')) {
    v.flush_site = word.substr(1);
  } else {
    die(EX_USAGE, "-q" + word + ": only -q, -qTIME, -qI ID and -qR SITE exist");
  }
  if (word == "I" || word == "R") die(EX_USAGE, "-q" + word + ": what?");
}

/// -O NAME=VALUE; names that mean nothing here are taken.
void take_named_option(Invocation& v, std::string_view word) {
  const auto equals = word.find('=');
  const auto name = word.substr(0, equals);
  const auto value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
  std::string* to = iequals(name, "requiretls") ? &v.requiretls
                    : iequals(name, "smtputf8") ? &v.smtputf8
                                                : nullptr;
  if (to == nullptr) return;
  if (!iequals(value, "yes") && !iequals(value, "no"))
    die(EX_USAGE, "-O " + std::string(name) + "=: yes or no, not " + printable(value));
  *to = to_lower(value);
}

void take_option(Invocation& v, int c, const char* argument) {
  switch (c) {
    case 'b':
      take_mode(v, argument[0]);
      break;
    case 'I':
      take_mode(v, 'i');
      break;
    case 'B':
      if (iequals(argument, "7BIT"))
        v.mail.body_type = mail::BodyType::seven_bit;
      else if (iequals(argument, "8BITMIME"))
        v.mail.body_type = mail::BodyType::eight_bit_mime;
      else
        die(EX_USAGE, std::string("-B: 7BIT or 8BITMIME, not ") + argument);
      break;
    case 'C':
      v.config_directory = argument;
      if (v.config_directory.ends_with(".cf"))
        v.config_directory = std::filesystem::path(argument).parent_path().string();
      break;
    case 'F':
      v.mail.full_name = argument;
      break;
    case 'G':
      v.mail.gateway = true;
      break;
    case 'N':
      v.reading.notify = notify_of(argument);
      break;
    case 'O':
      take_named_option(v, argument);
      break;
    case 'R':
      if (iequals(argument, "full"))
        v.mail.ret = mail::Ret::full;
      else if (iequals(argument, "hdrs"))
        v.mail.ret = mail::Ret::headers;
      else
        die(EX_USAGE, std::string("-R: full or hdrs, not ") + argument);
      break;
    case 'V':
      v.mail.envid = argument;
      break;
    case 'f':
    case 'r':
      v.sender = argument;
      break;
    case 'i':
      v.reading.dot_ends = false;
      break;
    case 'o':
      if (argument[0] == 'i') v.reading.dot_ends = false;
      if (argument[0] == 'A') v.alias_file = argument + 1;
      break;
    case 'q':
      take_queue_option(v, argument);
      break;
    case 't':
      v.reading.header_recipients = true;
      break;
    case 'v':
      v.verbose = true;
      break;
    case 'X':
      if (argument[0] == 'V')
        die(EX_USAGE, "-XV: sender addresses that name the recipient (VERP) are not made here");
      break;
    default:
      break;  // options of other sendmails that mean nothing here
  }
}

std::string one_address(const std::string& given) {
  if (trim(given).empty() || trim(given) == "<>") return {};
  auto found = mail::parse_address_list(given, 2);
  if (found.size() != 1) die(EX_USAGE, "-f: not an address: " + printable(given));
  return std::move(found.front().address);
}

/// The first part of the gecos field; & is the login name.
std::string name_of(const passwd& user) {
  const std::string_view gecos = user.pw_gecos != nullptr ? user.pw_gecos : "";
  std::string out, login = user.pw_name;
  if (!login.empty() && login.front() >= 'a' && login.front() <= 'z')
    login.front() = static_cast<char>(login.front() - 32);
  for (const char c : gecos.substr(0, gecos.find(',')))
    if (c == '&')
      out += login;
    else
      out += c;
  return out;
}

config::Config settings_of(const Invocation& v) {
  auto config = config::load(config::config_directory(v.config_directory), {}, false);
  if (!config) die(EX_CONFIG, config.error().message());
  return *std::move(config);
}

/// What -O asks for, as far as the configuration has it.
void take_extensions(Invocation& v) {
  if (v.requiretls.empty() && v.smtputf8.empty()) return;
  const config::Config config = settings_of(v);
  const config::Settings& s = config.settings();
  const auto wanted = [](const std::string& word, bool enabled, const char* option,
                         const char* setting) {
    if (word != "yes") return false;
    if (!enabled)
      complain(std::string("warning: -O ") + option + "=yes has no effect: " + setting + " = no");
    return enabled;
  };
  if (wanted(v.requiretls, s.requiretls_enable, "requiretls", "requiretls_enable"))
    v.mail.requiretls = mail::RequireTls::yes;
  v.mail.smtputf8 = wanted(v.smtputf8, s.smtputf8_enable, "smtputf8", "smtputf8_enable");
}

/// Options that do not go together, as Postfix refuses them; and what it would take for a message without sending it.
/// Ends the program.
void check_options(const Invocation& v, bool recipients) {
  const bool flushes_some = !v.flush_id.empty() || !v.flush_site.empty();
  const bool sends = v.mode == 'm' && !flushes_some && !v.interval;
  const auto refuse = [](std::string_view what) {
    die(EX_USAGE, std::string(what) + ": not with -b or -q of another task");
  };
  if (v.reading.header_recipients && !sends) refuse("-t");
  if (flushes_some && v.mode != 'm') refuse(v.flush_id.empty() ? "-qR" : "-qI");
  if (recipients && !sends && v.mode != 's') refuse("recipients");  // speak_smtp() tells its own
  if (!v.mail.probe) return;
  if (v.reading.header_recipients)
    die(EX_USAGE, "-bv reads no message: give the addresses on the command line, not -t");
  const char* of_mail = v.reading.notify != 0                  ? "-N"
                        : v.mail.ret != mail::Ret::unspecified ? "-R"
                        : v.verbose                            ? "-v"
                                                               : nullptr;
  if (of_mail != nullptr)
    die(EX_USAGE, std::string("-bv ends in one report to the sender: not with ") + of_mail);
}

int submit_message(Invocation& v, char** from, char** to) {
  if (!v.reading.header_recipients && from == to)
    die(EX_USAGE, "recipient addresses must be on the command line, or -t be given");
  v.mail.traced = v.verbose && !v.mail.probe;
  take_extensions(v);
  const passwd* user = ::getpwuid(::getuid());
  if (v.sender)
    v.mail.sender = one_address(*v.sender);
  else if (user != nullptr)
    v.mail.sender = mail::quote_local(user->pw_name);
  else
    die(EX_OSERR, "uid " + std::to_string(::getuid()) + " has no user name: give a sender with -f");
  if (v.mail.full_name.empty()) {
    const char* name = ::getenv("NAME");
    if (name != nullptr)
      v.mail.full_name = name;
    else if (user != nullptr && !v.sender)
      v.mail.full_name = name_of(*user);
  }
  for (char** word = from; word != to; ++word) {
    const auto found = mail::parse_address_list(*word, submission::kMaxRecipients + 1);
    if (found.empty()) die(EX_USAGE, "not an address: " + printable(*word));
    for (const auto& address : found)
      v.mail.recipients.push_back(
          {.address = address.address, .original = {}, .orcpt = {}, .notify = v.reading.notify});
  }
  Pendrop drop(
      {.program = beside("pendrop"), .config_directory = v.config_directory, .verbose = v.verbose});
  if (!v.mail.probe) return submit(drop, std::move(v.mail), v.reading, 0);
  drop.start(v.mail);
  return drop.finish();
}

int speak_smtp(const Invocation& v, char** from, char** to) {
  if (from != to)
    die(EX_USAGE, "-bs takes the recipients from RCPT commands: none on the command line");
  const config::Config config = settings_of(v);
  const config::Settings& s = config.settings();
  const std::string program = beside("pendrop");
  SmtpDialogue dialogue({.hostname = s.myhostname,
                         .mail_name = s.mail_name,
                         .size_limit = static_cast<std::uint64_t>(s.message_size_limit),
                         .recipient_limit = static_cast<std::size_t>(s.smtpd_recipient_limit),
                         .smtputf8 = s.smtputf8_enable},
                        [&] {
                          return std::make_unique<Pendrop>(Pendrop::Options{
                              .program = program, .config_directory = v.config_directory});
                        });
  return serve_smtp(dialogue, 0, 1, kSmtpTimeout);
}

[[noreturn]] void make_aliases(const Invocation& v) {
  const config::Config config = settings_of(v);
  std::vector<std::string> words = {"-c", config.directory()};
  if (!v.alias_file.empty()) {
    words.push_back(v.alias_file);
  } else {
    for (const auto& table : config.settings().alias_database) words.push_back(table);
  }
  if (words.size() == 2) std::exit(EX_OK);  // nothing to make
  become("penalias", std::move(words));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  // The standard descriptors are there, so that no file or pipe of ours takes their place.
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) return EX_OSERR;
    if (fd > 2) {
      ::close(fd);
      break;
    }
    if (::fcntl(fd, F_SETFD, 0) != 0) return EX_OSERR;
  }
  Invocation v;
  const char* slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
  const std::string name = argc > 0 ? (slash != nullptr ? slash + 1 : argv[0]) : "sendmail";
  if (name == "newaliases") v.mode = 'i';
  if (name == "mailq") v.mode = 'p';
  const option long_options[] = {{"help", no_argument, nullptr, 1},
                                 {"version", no_argument, nullptr, 2},
                                 {nullptr, 0, nullptr, 0}};
  for (int c; (c = ::getopt_long(argc, argv, "+A:B:C:F:GIL:N:O:R:UV:X:b:cd::e:f:h:imno:p:q::r:tvx",
                                 long_options, nullptr)) != -1;) {
    if (c == 1) {
      std::fputs(kHelp, stdout);
      return 0;
    }
    if (c == 2) {
      std::printf("%s (Penstock) %s\n", name.c_str(), PEN_VERSION);
      return 0;
    }
    if (c == '?') {
      std::fputs(kHelp, stderr);
      return EX_USAGE;
    }
    take_option(v, c, optarg);
  }
  check_options(v, optind != argc);
  if (v.interval && v.mode == 'm') return EX_OK;  // a daemon for the queue alone: qmgr is one
  std::vector<std::string> where;
  if (!v.config_directory.empty()) where = {"-c", v.config_directory};
  switch (v.mode) {
    case 'm':
      if (!v.flush_id.empty()) where.insert(where.end(), {"-i", v.flush_id});
      if (!v.flush_site.empty()) where.insert(where.end(), {"-s", v.flush_site});
      if (!v.flush_id.empty() || !v.flush_site.empty()) become("penqueue", std::move(where));
      return submit_message(v, argv + optind, argv + argc);
    case 'p':
      where.insert(where.begin(), "-p");
      if (v.verbose) where.insert(where.begin(), "-v");
      become("penqueue", std::move(where));
    case 'i':
      make_aliases(v);
    case 'q':
      where.emplace_back("-f");
      become("penqueue", std::move(where));
    case 'd':
    case 'l':
      where.emplace_back("start");
      become("penstock", std::move(where));
    case 'h':
    case 'H':
      return EX_OK;  // the state of hosts, which other sendmails keep
    case 's':
      return speak_smtp(v, argv + optind, argv + argc);
    default:
      die(EX_USAGE, std::string("-b") + v.mode + ": no such mode here");
  }
}
