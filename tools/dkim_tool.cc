#include "tools/dkim_tool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "lib/base/async/loop.h"
#include "lib/base/base64.h"
#include "lib/base/date.h"
#include "lib/base/fd.h"
#include "lib/base/file_io.h"
#include "lib/base/text.h"
#include "lib/config/edit.h"
#include "lib/mail/address.h"
#include "lib/mail/wire.h"
#include "lib/map/file_map.h"
#include "lib/net/dns.h"
#include "lib/receive/resolve/key_records.h"
#include "lib/receive/resolve/name_servers.h"
#include "lib/suite/confine/secrets.h"
#include "lib/trust/dkim/sign.h"
#include "lib/trust/signing/message_signature.h"
#include "tools/dkim_rotation.h"
#include "tools/output.h"
#include "tools/signers.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "pendkim";
constexpr std::size_t kMostInput = 512U << 20;  // a message is read into memory
constexpr std::size_t kAtOnce = 50;             // questions to DNS
constexpr std::size_t kMostKeys = 100000;       // of check
// Mail waits in queues for days: so long a key's record stays when it signs no more.
constexpr std::chrono::hours kKeptAfter{14 * 24};

std::string standard_input() {
  std::string text, piece(65536, '\0');
  for (;;) {
    const auto n = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (n == 0) return text;
    if (n < 0) {
      if (errno == EINTR) continue;
      die(kProgram, EX_IOERR, std::string("standard input: ") + std::strerror(errno));
    }
    text.append(piece, 0, static_cast<std::size_t>(n));
    if (text.size() > kMostInput) die(kProgram, EX_DATAERR, "the message is too large");
  }
}

/// A message with line ends as in mail.
struct Input {
  std::string content;
  std::size_t body = 0;    // where it begins
  bool bare_ends = false;  // the lines came with LF alone

  std::string_view header() const { return std::string_view(content).substr(0, body); }
  static Input read() {
    const std::string text = standard_input();
    struct Sink {
      std::string out;
      void text(std::string_view part) { out += part; }
      void line_end() { out += "\r\n"; }
    } sink;
    mail::BdatScanner scanner({.replace_bare_cr = false});
    scanner.feed(text, sink);
    scanner.finish(sink);
    Input input{.content = std::move(sink.out), .bare_ends = !text.contains("\r\n")};
    const auto fields = dkim::split_fields(input.content, dkim::Verifier::kMostFields);
    if (!fields.empty()) {
      const auto& last = fields.back().whole;
      input.body = static_cast<std::size_t>(last.data() + last.size() - input.content.data());
      for (int line = 0; line < 2; ++line)
        if (std::string_view(input.content).substr(input.body).starts_with("\r\n")) input.body += 2;
    }
    return input;
  }
};

std::string with_lf(std::string text) {
  std::erase(text, '\r');
  return text;
}

std::shared_ptr<const dkim::PrivateKey> load_key(const std::string& file) {
  auto text = map::read_table_file(file);
  if (!text) die(kProgram, EX_NOINPUT, text.error().message());
  auto key = dkim::PrivateKey::parse(*text);
  if (!key) die(kProgram, EX_DATAERR, file + ": " + key.error().message());
  return *std::move(key);
}

/// Writes a file that must not be there yet.
void write_new(const std::string& path, mode_t mode, std::string_view text) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd) die(kProgram, EX_CANTCREAT, path + ": " + std::strerror(errno));
  if (const auto written = write_all(fd.get(), text, path); !written)
    die(kProgram, EX_IOERR, written.error().message());
  if (::fsync(fd.get()) != 0) die(kProgram, EX_IOERR, path + ": " + std::strerror(errno));
}

/// The questions of one command; the loop ends with the last answer.
struct Questions {
  async::Loop loop;
  async::HandlerPool pool{loop, 1};
  net::Resolver resolver;
  std::map<std::string, dkim::KeyAnswer> answers;
  std::size_t open = 0;

  explicit Questions(net::ResolverOptions options) : resolver(loop, pool, std::move(options)) {}
  static async::Task<void> ask(Questions* self, std::string name) {
    auto answer = co_await resolve::key_answer(self->resolver, name);
    self->answers[name] = std::move(answer);
    if (--self->open == 0) self->loop.stop();
  }
};

std::map<std::string, dkim::KeyAnswer> from_dns(const std::string& directory, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const config::Config config = load_instance(kProgram, directory);
  auto options = resolve::name_servers(config.settings(), resolve::read_resolv_conf());
  if (!options) die(kProgram, EX_CONFIG, options.error().message());
  options->max_under_way = kAtOnce;
  Questions questions(*std::move(options));
  questions.open = names.size();
  for (const auto& name : names) questions.loop.spawn("ask", Questions::ask(&questions, name));
  questions.loop.run();
  return std::move(questions.answers);
}

std::string table_text(const std::string& file) {
  auto text = map::read_table_file(file);
  if (!text) die(kProgram, EX_NOINPUT, text.error().message());
  return *std::move(text);
}

void replace(const std::string& file, std::string_view text) {
  if (const auto done = config::replace_file(file, text); !done) die(kProgram, EX_CANTCREAT, done.error().message());
}

/// The file that a setting of OpenDKIM's form names; "": it is a table of another kind.
std::string file_of(const std::string& value) {
  const auto source = dkim::OpendkimConf::Source::of(value);
  using Kind = dkim::OpendkimConf::Source::Kind;
  return source.kind == Kind::file || source.kind == Kind::patterns ? source.text : std::string();
}

}  // namespace

std::map<std::string, dkim::KeyAnswer> parse_key_file(std::string_view text) {
  std::map<std::string, dkim::KeyAnswer> answers;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto blank = line.find_first_of(" \t");
    if (line.empty() || line.starts_with('#') || blank == std::string_view::npos) continue;
    std::string name = to_lower(line.substr(0, blank));
    if (name.ends_with('.')) name.pop_back();
    dkim::KeyAnswer& answer = answers[name];
    answer.state = dkim::KeyAnswer::State::found;
    answer.texts.emplace_back(trim(line.substr(blank)));
  }
  return answers;
}

std::string record_of(const dkim::PrivateKey& key) {
  const bool rsa = key.algorithm() == dkim::Algorithm::rsa_sha256;
  return std::string("v=DKIM1; k=") + (rsa ? "rsa" : "ed25519") + "; p=" + base64_encode(key.public_bytes());
}

std::expected<DkimTool::Options, service::Ending> DkimTool::read(int argc, const char* const* argv) {
  Options o;
  const service::CommandLine line{
      .program = kProgram,
      .usage = {"pendkim generate -d DOMAIN -s SELECTOR [--rsa BITS | --ed25519] [--dir DIR]",
                "pendkim dns -d DOMAIN -s SELECTOR --key FILE",
                "pendkim sign [-c DIR] [-d DOMAIN -s SELECTOR --key FILE] [--canon FORM] < MESSAGE",
                "pendkim verify [-c DIR] [--key-file FILE] < MESSAGE", "pendkim check [-c DIR]",
                "pendkim rotate [-c DIR] -d DOMAIN [--from DATE] [-s SELECTOR] [--rsa BITS | --ed25519] [--dir DIR]"},
      .about =
          "DKIM keys and signatures: makes a key and its DNS record, shows the record, signs a message, verifies "
          "one, compares the keys of an instance with DNS, and prepares the next key of a domain.",
      .options = {
          {"-d DOMAIN", "the domain that signs", service::into(o.domain)},
          {"-s SELECTOR", "the name of the key in the domain", service::into(o.selector)},
          {"--rsa BITS", "an RSA key of that size (default: 2048)",
           service::into(o.rsa_bits, static_cast<int>(dkim::kLeastBits), static_cast<int>(dkim::kMostBits))},
          {"--ed25519", "an Ed25519 key", service::set(o.ed25519)},
          {"--dir DIR", "where the files of a new key go (default: here)", service::into(o.target)},
          {"--key FILE", "the private key", service::into(o.key)},
          {"--key-file FILE", "lines NAME RECORD in place of DNS", service::into(o.key_file)},
          {"--from DATE", "rotate: when the new key begins to sign (default: in a week, at midnight UTC)",
           service::into(o.from)},
          {"--canon FORM", "relaxed/relaxed (the default), simple/simple and so on", service::into(o.canonicalization)},
          service::directory_option(o.directory)}};
  const auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->size() != 1)
    return std::unexpected(line.misuse("one command: generate, dns, sign, verify, check or rotate"));
  static constexpr std::pair<std::string_view, Command> kCommands[] = {
      {"generate", Command::generate}, {"dns", Command::dns},     {"sign", Command::sign},
      {"verify", Command::verify},     {"check", Command::check}, {"rotate", Command::rotate}};
  bool known = false;
  for (const auto& [name, command] : kCommands) {
    if (words->front() != name) continue;
    o.command = command;
    known = true;
  }
  if (!known) return std::unexpected(line.misuse("not a command: " + printable(words->front(), 60)));
  const bool named = !o.domain.empty() || !o.selector.empty() || !o.key.empty();
  const bool makes = o.command == Command::generate || o.command == Command::dns;
  if (makes || (o.command == Command::sign && named)) {
    if (!mail::valid_hostname(o.domain)) return std::unexpected(line.misuse("-d: no domain"));
    if (!mail::valid_hostname("s." + o.selector)) return std::unexpected(line.misuse("-s: no selector"));
    if (o.command != Command::generate && o.key.empty()) return std::unexpected(line.misuse("--key is missing"));
  }
  if (o.command == Command::rotate) {
    if (!mail::valid_hostname(o.domain)) return std::unexpected(line.misuse("-d: no domain"));
    if (!o.selector.empty() && !mail::valid_hostname("s." + o.selector))
      return std::unexpected(line.misuse("-s: no selector"));
    if (!o.from.empty() && !parse_date(o.from))
      return std::unexpected(line.misuse("--from: no date as 2027-01-01 or 2027-01-01T06:00Z"));
  }
  if (!o.canonicalization.empty() && !dkim::Canonicalization::parse(o.canonicalization))
    return std::unexpected(line.misuse("--canon: not simple or relaxed"));
  return o;
}

int DkimTool::run() {
  switch (options_.command) {
    case Command::generate:
      return generate();
    case Command::dns:
      return dns();
    case Command::sign:
      return sign();
    case Command::verify:
      return verify();
    case Command::check:
      return check();
    case Command::rotate:
      return rotate();
  }
  return EX_SOFTWARE;
}

int DkimTool::generate() {
  const auto algorithm = options_.ed25519 ? dkim::Algorithm::ed25519_sha256 : dkim::Algorithm::rsa_sha256;
  const auto key = dkim::PrivateKey::generate(algorithm, static_cast<unsigned>(options_.rsa_bits));
  const std::string base = fmt::format("{}/{}.{}", options_.target, options_.domain, options_.selector);
  const std::string text = dkim::zone_line(dkim::key_name(options_.selector, options_.domain), record_of(*key));
  write_new(base + ".private", 0600, key->pem());
  write_new(base + ".txt", 0644, text);
  print(text);
  print(fmt::format("; key table:     {0} {1}:{2}:{3}.private\n; signing table: *@{1} {0}\n",
                    options_.domain + "." + options_.selector, options_.domain, options_.selector, base));
  return EX_OK;
}

int DkimTool::dns() {
  print(dkim::zone_line(dkim::key_name(options_.selector, options_.domain), record_of(*load_key(options_.key))));
  return EX_OK;
}

int DkimTool::sign() {
  const Input input = Input::read();
  const std::string_view content = input.content;
  std::string fields;
  if (!options_.key.empty()) {
    dkim::SigningForm form;
    form.fields = load_instance(kProgram, options_.directory).settings().dkim_sign_headers;
    if (!options_.canonicalization.empty())
      form.canonicalization = *dkim::Canonicalization::parse(options_.canonicalization);
    dkim::Signer signer(form, {{load_key(options_.key), options_.domain, options_.selector}},
                        system_clock().wall_now());
    signer.header(input.header());
    signer.body(content.substr(input.body));
    fields = signer.finish();
  } else {
    config::Settings settings = load_instance(kProgram, options_.directory).settings();
    settings.dkim_signing = true;
    if (!options_.canonicalization.empty()) settings.dkim_canonicalization = options_.canonicalization;
    auto signing = signing::Signing::open(settings);
    if (!signing) die(kProgram, EX_CONFIG, signing.error().message());
    if (!*signing) die(kProgram, EX_CONFIG, settings.dkim_opendkim_conf + ": Mode is not to sign");
    signing::MessageSignature signature(*std::move(signing), system_clock().wall_now());
    signature.begin(content);
    if (!signature.wanted()) die(kProgram, EX_NOUSER, "no table names a key for the From: address");
    auto made = signature.finish();
    if (!made) die(kProgram, EX_CONFIG, made.error().message());
    fields = *std::move(made);
  }
  const std::string whole = fields + input.content;
  print(input.bare_ends ? with_lf(whole) : whole);
  return EX_OK;
}

int DkimTool::verify() {
  const Input input = Input::read();
  dkim::Verifier verifier(system_clock().wall_now());
  verifier.header(input.header());
  verifier.body(std::string_view(input.content).substr(input.body));
  std::map<std::string, dkim::KeyAnswer> answers;
  if (options_.key_file.empty()) {
    answers = from_dns(options_.directory, verifier.wanted());
  } else {
    const auto text = map::read_table_file(options_.key_file);
    if (!text) die(kProgram, EX_NOINPUT, text.error().message());
    const auto listed = parse_key_file(*text);
    for (const auto& name : verifier.wanted()) {
      const auto found = listed.find(to_lower(name));
      answers[name] = found == listed.end() ? dkim::KeyAnswer{dkim::KeyAnswer::State::missing, {}} : found->second;
    }
  }
  const auto outcomes = verifier.results(answers);
  bool pass = false, later = false;
  for (const auto& o : outcomes) {
    pass = pass || o.verdict == dkim::Verdict::pass;
    later = later || o.verdict == dkim::Verdict::temperror;
    std::string line = fmt::format("{} header.d={} header.i={} header.s={} header.a={} header.b={}{}",
                                   dkim::verdict_word(o.verdict), o.domain, printable(o.identity, 200), o.selector,
                                   printable(o.algorithm, 40), o.tag, o.testing ? " (testing)" : "");
    if (!o.reason.empty()) line += " (" + o.reason + ")";
    print(line + "\n");
  }
  if (outcomes.empty()) print("none (no signature)\n");
  return pass ? EX_OK : later ? EX_TEMPFAIL : 1;
}

namespace {

struct CheckedKey {
  const Signers::Table* table;
  signing::Signing::Named named;
  std::string record;  // its name
  std::optional<signing::KeyDates> dates;
};

std::vector<CheckedKey> keys_of(const Signers& signers) {
  std::vector<CheckedKey> keys;
  for (const auto& table : signers.tables) {
    auto named = table.signing->named_keys();
    if (!named) die(kProgram, EX_CONFIG, named.error().message());
    if (keys.size() + named->size() > kMostKeys) die(kProgram, EX_DATAERR, "too many keys");
    std::shared_ptr<const signing::KeyDateTable> dates;
    if (const auto* rotation = table.signing->rotation(); rotation != nullptr) {
      auto read = rotation->table();
      if (!read) die(kProgram, EX_CONFIG, read.error().message());
      dates = *std::move(read);
    }
    for (auto& one : *named) {
      const auto* own = dates ? dates->find(one.name) : nullptr;
      std::string record = dkim::key_name(one.entry.selector, one.entry.domain);
      keys.push_back({&table, std::move(one), std::move(record), own != nullptr ? std::optional(*own) : std::nullopt});
    }
  }
  return keys;
}

/// What is wrong with the records of a key in DNS; empty: nothing. for_tests: the record says so.
std::string fault_of(const dkim::PrivateKey& key, const dkim::KeyAnswer& answer, bool& for_tests) {
  if (answer.state == dkim::KeyAnswer::State::missing) return "not in DNS: publish what pendkim dns prints";
  for (const auto& text : answer.texts) {
    const auto record = dkim::KeyRecord::parse(text);
    if (!record) continue;
    if (record->key != key.public_bytes()) return "DNS has another key";
    for_tests = record->testing;
    return {};
  }
  return "DNS has no key record there";
}

/// It signs no more, and mail that it has signed has arrived, or is lost.
bool long_over(const CheckedKey& one, bool seals, WallTime now) {
  return one.dates && one.dates->until && !seals && now >= *one.dates->until + kKeptAfter;
}

/// When it signs, and what is to be done about that; begins with a comma.
std::string when_it_signs(const CheckedKey& one, bool seals, WallTime now) {
  if (!one.dates) return {};
  const auto &from = one.dates->from, &until = one.dates->until;
  if (from && *from > now) return ", signs from " + utc_text(*from);
  if (!until) return {};
  std::string when = (*until > now ? ", signs until " : ", over since ") + utc_text(*until);
  if (seals)
    when += ", and goes on to seal: set arc_seal_key to the key after it";
  else if (*until <= now)
    when += ": its record stays until " + utc_text(*until + kKeptAfter);
  return when;
}

enum class KeyState : std::uint8_t { good, bad, unknown };

/// Prints a line, or two.
KeyState check_key(const CheckedKey& one, const dkim::KeyAnswer& answer, WallTime now) {
  const auto say = [&](std::string_view what) { print(fmt::format("{} {}: {}\n", one.named.name, one.record, what)); };
  const auto key = one.table->signing->key(one.named.entry);
  if (key && answer.state == dkim::KeyAnswer::State::unknown) {
    say("DNS does not answer now");
    return KeyState::unknown;
  }
  bool for_tests = false;
  const std::string fault = key ? fault_of(**key, answer, for_tests) : key.error().message();
  if (for_tests) say("DNS says that the key is for tests (t=y)");
  const bool seals = one.table->seals(one.named.name);
  if (long_over(one, seals, now)) {
    say(answer.state == dkim::KeyAnswer::State::missing
            ? "over, and not in DNS: its line and its file may go"
            : "over since " + utc_text(*one.dates->until) + ": take its record out of DNS, then its line and its file");
    return KeyState::good;
  }
  say((fault.empty() ? "ok" : fault) + when_it_signs(one, seals, now));
  return fault.empty() ? KeyState::good : KeyState::bad;
}

}  // namespace

int DkimTool::check() {
  const config::Config config = load_instance(kProgram, options_.directory);
  const Signers signers = signers_of(config);
  if (!signers.wanted) die(kProgram, EX_CONFIG, "dkim_signing is no: nothing is signed");
  if (signers.tables.empty())
    die(kProgram, EX_CONFIG,
        signers.faults.empty() ? config.settings().dkim_opendkim_conf + ": Mode is not to sign"
                               : signers.faults.front());
  const std::vector<CheckedKey> keys = keys_of(signers);
  std::vector<std::string> names;
  for (const CheckedKey& one : keys) names.push_back(one.record);
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  const auto answers = from_dns(options_.directory, names);
  bool good = signers.faults.empty(), later = false;
  const WallTime now = system_clock().wall_now();
  for (const CheckedKey& one : keys) {
    const KeyState state = check_key(one, answers.at(one.record), now);
    good = good && state != KeyState::bad;
    later = later || state == KeyState::unknown;
  }
  if (keys.empty()) print("no keys that can be listed\n");
  for (const std::string& fault : signers.faults) print(fault + "\n");
  return !good ? 1 : later ? EX_TEMPFAIL : EX_OK;
}

namespace {

/// Whether the kernel's rules open the directory of one of these files entry by entry, because of key files there: what
/// has taken the place of such a file is closed to the programs that run (docs/keys.md).
bool closed_until_reload(const config::Config& config, const std::vector<std::string>& files) {
  if (!config.settings().confine_files) return false;
  const auto hidden = confine::secrets_of(config, confine::row_of("smtpd"), confine::real_machine()).hidden;
  return std::ranges::any_of(files, [&](const std::string& file) {
    const std::string directory = file.substr(0, file.rfind('/') + 1);
    return std::ranges::any_of(hidden, [&](const std::string& key) { return key.starts_with(directory); });
  });
}

/// The keys that a rotation ends, and where its files go.
struct Ended {
  std::vector<std::string> names;
  std::string folder;
};

Ended ended_by(const DkimTool::Options& options, const signing::Signing& signing, const signing::KeyDateTable& dates,
               const std::vector<signing::Signing::Named>& named, const std::string& key_table, WallTime now) {
  const auto algorithm = options.ed25519 ? dkim::Algorithm::ed25519_sha256 : dkim::Algorithm::rsa_sha256;
  Ended ended{{}, options.target};
  for (const auto& one : named) {
    if (!iequals(one.entry.domain, options.domain)) continue;
    const auto* own = dates.find(one.name);
    if (own != nullptr && own->until) continue;  // has its successor
    if (own != nullptr && own->from && *own->from > now)
      die(kProgram, EX_USAGE, one.name + " is prepared already, and signs from " + utc_text(*own->from));
    const auto key = signing.key(one.entry);
    if (!key) die(kProgram, EX_CONFIG, key.error().message());
    // A key of the other kind has a change of its own.
    if ((*key)->algorithm() != algorithm) continue;
    ended.names.push_back(one.name);
    if (options.target == "." && one.entry.is_file()) {
      const auto slash = one.entry.key.rfind('/');
      ended.folder =
          slash == std::string::npos ? key_table.substr(0, key_table.rfind('/')) : one.entry.key.substr(0, slash);
    }
  }
  if (ended.names.empty())
    die(kProgram, EX_NOUSER,
        fmt::format("no key of {} signs for {}: begin with pendkim generate", dkim::algorithm_name(algorithm),
                    options.domain));
  return ended;
}

/// The name of the new key in the key table, which does not have it yet.
std::string new_name(const std::string& domain, const std::string& selector,
                     const std::vector<signing::Signing::Named>& named) {
  std::string name = domain + "." + selector;
  const bool taken = std::ranges::any_of(named, [&](const auto& one) {
    return iequals(one.name, name) || (iequals(one.entry.domain, domain) && iequals(one.entry.selector, selector));
  });
  if (taken) die(kProgram, EX_CANTCREAT, name + " is in the key table already: choose another selector with -s");
  return name;
}

void say_what_is_left(const config::Config& config, const std::vector<std::string>& olds, const std::string& name,
                      WallTime from) {
  const config::Settings& settings = config.settings();
  print(
      fmt::format("; publish this record before {}: from then on {} signs in place of {}, once DNS has the record\n"
                  "; the record of {} stays until {}; pendkim check says what is due\n",
                  utc_text(from), name, join(olds), join(olds), utc_text(from + kKeptAfter)));
  const Signers signers = signers_of(config);
  for (const std::string& old : olds)
    if (std::ranges::any_of(signers.tables, [&](const auto& t) {
          return t.signing->key_table() == settings.dkim_key_table && t.seals(old);
        }))
      print(fmt::format("; {0} goes on to seal (ARC): set arc_seal_key to {1} once DNS has the record of {1}\n", old,
                        name));
  if (closed_until_reload(
          config, {file_of(settings.dkim_key_table), file_of(settings.dkim_signing_table), settings.dkim_key_dates}))
    print(
        "; now: penstock reload. Key files stand beside these tables: until then running programs cannot read the new "
        "ones, and mail waits\n");
}

}  // namespace

int DkimTool::rotate() {
  const config::Config config = load_instance(kProgram, options_.directory);
  const config::Settings& settings = config.settings();
  if (!settings.dkim_signing) die(kProgram, EX_CONFIG, "dkim_signing is no: nothing is signed");
  if (!settings.dkim_opendkim_conf.empty())
    die(kProgram, EX_CONFIG, "with dkim_opendkim_conf: make the key by pendkim generate, and write the lines yourself");
  if (settings.dkim_key_dates.empty()) die(kProgram, EX_CONFIG, "dkim_key_dates is not set: name a file, and touch it");
  const std::string keys = file_of(settings.dkim_key_table), senders = file_of(settings.dkim_signing_table);
  if (keys.empty() || senders.empty())
    die(kProgram, EX_CONFIG, "dkim_key_table and dkim_signing_table must be files, for their lines to be written");
  const auto opened = signing::Signing::open(settings);
  if (!opened) die(kProgram, EX_CONFIG, opened.error().message());
  const auto named = (*opened)->named_keys();
  if (!named) die(kProgram, EX_CONFIG, named.error().message());
  const auto dates = (*opened)->rotation()->table();
  if (!dates) die(kProgram, EX_CONFIG, dates.error().message());
  const WallTime now = system_clock().wall_now();
  const WallTime from = options_.from.empty()
                            ? WallTime(std::chrono::floor<std::chrono::days>(now) + std::chrono::days(8))
                            : *parse_date(options_.from);
  if (from <= now) die(kProgram, EX_USAGE, "--from: this date has passed: the record must be in DNS before");
  const Ended ended = ended_by(options_, **opened, **dates, *named, keys, now);
  const std::string selector =
      !options_.selector.empty() ? options_.selector : selector_of(from) + (options_.ed25519 ? "e" : "");
  const std::string name = new_name(options_.domain, selector, *named);
  std::size_t lines = 0;
  const std::string with = with_successor(table_text(senders), ended.names, name, lines);
  if (lines == 0) die(kProgram, EX_CONFIG, senders + ": no line names " + join(ended.names));
  const auto algorithm = options_.ed25519 ? dkim::Algorithm::ed25519_sha256 : dkim::Algorithm::rsa_sha256;
  const auto key = dkim::PrivateKey::generate(algorithm, static_cast<unsigned>(options_.rsa_bits));
  const std::string base = fmt::format("{}/{}", ended.folder, name);
  const std::string zone = dkim::zone_line(dkim::key_name(selector, options_.domain), record_of(*key));
  write_new(base + ".private", 0600, key->pem());
  write_new(base + ".txt", 0644, zone);
  // In this order what a crash leaves is harmless: no address has the new key before its date stands.
  replace(keys, with_key(table_text(keys), name, fmt::format("{}:{}:{}.private", options_.domain, selector, base)));
  replace(settings.dkim_key_dates, with_dates(table_text(settings.dkim_key_dates), ended.names, name, from));
  replace(senders, with);
  print(zone);
  say_what_is_left(config, ended.names, name, from);
  return EX_OK;
}

}  // namespace pen::tools
