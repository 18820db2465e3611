#include "tools/sendmail_tool.h"

#include <pwd.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>

#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/mail/verp.h"
#include "lib/receive/submission/recipients.h"
#include "lib/suite/service/plan.h"
#include "tools/sendmail_submit.h"
#include "tools/smtp_dialogue.h"

namespace pen::tools {
namespace {

constexpr seconds kSmtpTimeout{300};  // RFC 5321 section 4.5.3.2.7

[[noreturn]] void die(int code, std::string_view text) {
  complain(text);
  std::exit(code);
}

/// The path of another command of the suite, beside this one.
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

std::string one_address(const std::string& given) {
  if (trim(given).empty() || trim(given) == "<>") return {};
  auto found = mail::parse_address_list(given, 2);
  if (found.size() != 1) die(EX_USAGE, "-f: not an address: " + readable(given));
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

}  // namespace

int SendmailTool::run() {
  const Options& v = options_;
  if (v.idle()) return EX_OK;
  std::vector<std::string> where;
  if (!v.config_directory.empty()) where = {"-c", v.config_directory};
  switch (v.mode) {
    case 'm':
      if (!v.flush_id.empty()) where.insert(where.end(), {"-i", v.flush_id});
      if (!v.flush_site.empty()) where.insert(where.end(), {"-s", v.flush_site});
      if (!v.flush_id.empty() || !v.flush_site.empty()) become("penqueue", std::move(where));
      return submit_message();
    case 'p':
      where.insert(where.begin(), "-p");
      if (v.verbose) where.insert(where.begin(), "-v");
      become("penqueue", std::move(where));
    case 'i':
      make_aliases();
    case 'q':
      where.emplace_back("-f");
      become("penqueue", std::move(where));
    case 'd':
    case 'l':
      where.emplace_back("start");
      become("penstock", std::move(where));
    case 's':
      return speak_smtp();
    default:
      die(EX_USAGE, "-b" + readable(std::string(1, v.mode)) + ": no such mode here");
  }
}

config::Config SendmailTool::settings() const {
  auto config = config::load(config::config_directory(options_.config_directory), {}, false);
  if (!config) die(EX_CONFIG, config.error().message());
  return *std::move(config);
}

void SendmailTool::take_extensions() {
  Options& v = options_;
  if (v.requiretls.empty() && v.smtputf8.empty() && !v.verp) return;
  const config::Config config = settings();
  const config::Settings& s = config.settings();
  const auto wanted = [](const std::string& word, bool enabled, const char* option, const char* setting) {
    if (word != "yes") return false;
    if (!enabled) complain(std::string("warning: -O ") + option + "=yes has no effect: " + setting + " = no");
    return enabled;
  };
  if (wanted(v.requiretls, s.requiretls_enable, "requiretls", "requiretls_enable"))
    v.mail.requiretls = mail::RequireTls::yes;
  v.mail.smtputf8 = wanted(v.smtputf8, s.smtputf8_enable, "smtputf8", "smtputf8_enable");
  if (!v.verp) return;
  v.mail.verp = v.verp->empty() ? s.default_verp_delimiters : *v.verp;
  if (!mail::verp_delimiters(v.mail.verp, s.verp_delimiter_filter))
    die(EX_USAGE, "-XV needs two characters from " + s.verp_delimiter_filter);
}

namespace {
submission::InputFilter::CarriageReturn ends_of(config::FixLineEndings setting) {
  using CarriageReturn = submission::InputFilter::CarriageReturn;
  switch (setting) {
    case config::FixLineEndings::always:
      return CarriageReturn::always;
    case config::FixLineEndings::strict:
      return CarriageReturn::strict;
    case config::FixLineEndings::never:
      return CarriageReturn::never;
  }
  return CarriageReturn::always;
}
}  // namespace

int SendmailTool::submit_message() {
  Options& v = options_;
  if (!v.reading.header_recipients && v.words.empty())
    die(EX_USAGE, "recipient addresses must be on the command line, or -t be given");
  const bool probe = v.mail.purpose == mail::Purpose::probe;
  if (v.verbose && !probe) v.mail.purpose = mail::Purpose::traced;
  take_extensions();
  const passwd* user = ::getpwuid(::getuid());
  if (v.sender)
    v.mail.sender = one_address(*v.sender);
  else if (user != nullptr)
    v.mail.sender = mail::quote_local(user->pw_name);
  else
    die(EX_OSERR, "uid " + std::to_string(::getuid()) + " has no user name: give a sender with -f");
  if (v.full_name)
    v.mail.full_name = *std::move(v.full_name);
  else if (const char* name = ::getenv("NAME"))
    v.mail.full_name = name;
  else if (user != nullptr)
    v.mail.full_name = name_of(*user);
  bool any = v.words.empty();
  for (const std::string& word : v.words) {
    auto found = submission::read_recipients(word, submission::kMaxRecipients + 1);
    any = any || found.unreadable < found.addresses.size();
    for (auto& address : found.addresses)
      v.mail.recipients.push_back(
          {.address = std::move(address), .original = {}, .orcpt = {}, .notify = v.reading.notify});
  }
  if (!any && !v.reading.header_recipients) die(EX_USAGE, "not an address: " + readable(join(v.words)));
  Pendrop drop(pendrop());
  if (!probe) {
    v.reading.ends = ends_of(settings().settings().sendmail_fix_line_endings);
    return submit(drop, std::move(v.mail), v.reading, 0);
  }
  drop.start(v.mail);
  return drop.finish();
}

int SendmailTool::speak_smtp() {
  const config::Config config = settings();
  const config::Settings& s = config.settings();
  Pendrop::Options how = pendrop();
  how.verbose = false;
  SmtpDialogue dialogue({.hostname = s.myhostname,
                         .mail_name = s.mail_name,
                         .size_limit = static_cast<std::uint64_t>(s.message_size_limit),
                         .recipient_limit = static_cast<std::size_t>(s.smtpd_recipient_limit),
                         .smtputf8 = s.smtputf8_enable,
                         .verp = s.default_verp_delimiters,
                         .verp_filter = s.verp_delimiter_filter},
                        [&] { return std::make_unique<Pendrop>(how); });
  return serve_smtp(dialogue, 0, 1, kSmtpTimeout);
}

Pendrop::Options SendmailTool::pendrop() const {
  Pendrop::Options how{
      .program = beside("pendrop"), .config_directory = options_.config_directory, .verbose = options_.verbose};
  if (!lacks_its_group(how.program)) return how;
  const config::Config config = settings();
  const config::Settings& s = config.settings();
  // A user who may write there needs no group: the one with this instance.
  const bool writes = ::access((s.queue_directory + "/maildrop").c_str(), W_OK | X_OK) == 0;
  if (s.submission_socket && !writes) how.socket = s.queue_directory + "/" + std::string(service::kSubmitSocket);
  return how;
}

void SendmailTool::make_aliases() {
  const config::Config config = settings();
  std::vector<std::string> words = {"-c", config.directory()};
  if (!options_.alias_file.empty()) {
    words.push_back(options_.alias_file);
  } else {
    for (const auto& table : config.settings().alias_database) words.push_back(table);
  }
  if (words.size() == 2) std::exit(EX_OK);  // nothing to make
  become("penalias", std::move(words));
}

}  // namespace pen::tools
