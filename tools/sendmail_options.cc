#include "tools/sendmail_options.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>

#include "lib/base/text.h"

namespace pen::tools {
namespace {

/// What a notice is to say is not worth the message: as in Postfix, it goes as if the option were not there.
std::string pass_over(const std::string& fault) {
  complain("warning: " + fault + " -- ignored");
  return {};
}

/// Takes -N's list.
std::string take_notify(SendmailOptions& v, const std::string& list) {
  std::uint8_t bits = 0;
  for (const auto& word : split_list(list)) {
    const std::uint8_t bit = iequals(word, "never")     ? mail::notify::kNever
                             : iequals(word, "success") ? mail::notify::kSuccess
                             : iequals(word, "failure") ? mail::notify::kFailure
                             : iequals(word, "delay")   ? mail::notify::kDelay
                                                        : std::uint8_t{0};
    if (bit == 0) return pass_over("-N: not one of never, success, failure, delay: " + readable(word));
    bits = static_cast<std::uint8_t>(bits | bit);
  }
  if (bits == 0 || ((bits & mail::notify::kNever) != 0 && bits != mail::notify::kNever))
    return pass_over("-N: never, or some of success,failure,delay");
  v.reading.notify = bits;
  return {};
}

/// Takes -V's ID (RFC 3461 section 4.4).
std::string take_envid(SendmailOptions& v, const std::string& id) {
  constexpr std::size_t kMost = 100;
  if (id.size() == 2 && id.find_first_not_of("-=+") == id.npos) {
    complain("warning: -V" + id + " is -XV" + id + " since Postfix 2.3, and taken so");
    v.verp = id;
    return {};
  }
  if (id.size() > kMost) return pass_over("-V: an envelope id of more than 100 characters");
  if (!std::ranges::all_of(id, [](char c) { return c >= ' ' && c <= '~'; }))
    return pass_over("-V: an envelope id that is not printable: " + readable(id));
  v.mail.envid = id;
  return {};
}

/// Takes -b, -I and -q, of which the last counts. But a daemon flushes the queue by itself, in whatever order -bd and
/// -q are.
void take_mode(SendmailOptions& v, char mode) {
  const bool daemon = v.mode == 'd' || v.mode == 'l', starts = mode == 'd' || mode == 'l';
  if ((daemon && mode == 'q') || (v.mode == 'q' && starts))
    complain("warning: -q is not used with -bd: the queue manager tries by itself");
  if (mode == 'v')
    v.mail.purpose = mail::Purpose::probe;
  else if (!daemon || mode != 'q')
    v.mode = mode;
}

/// -q, -qTIME, -qI ID, -qR SITE. Returns what is wrong with it; empty: nothing.
std::string take_queue_option(SendmailOptions& v, const std::string& word) {
  if (word.empty()) {
    take_mode(v, 'q');
  } else if (ascii_digit(word.front())) {
    v.interval = true;
  } else if (word == "I" || word == "R") {
    return "-q" + word + ": what?";
  } else if (word.starts_with('I')) {
    v.flush_id = word.substr(1);
  } else if (word.starts_with('R')) {
    v.flush_site = word.substr(1);
  } else {
    return "-q" + readable(word) + ": only -q, -qTIME, -qI ID and -qR SITE exist";
  }
  return {};
}

/// Takes -O NAME=VALUE; names without a meaning here are ignored.
std::string take_named_option(SendmailOptions& v, std::string_view word) {
  const auto equals = word.find('=');
  const auto name = word.substr(0, equals);
  const auto value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
  std::string* to = iequals(name, "requiretls") ? &v.requiretls : iequals(name, "smtputf8") ? &v.smtputf8 : nullptr;
  if (to == nullptr) return {};
  if (!iequals(value, "yes") && !iequals(value, "no"))
    return "-O " + std::string(name) + "=: yes or no, not " + readable(value);
  *to = to_lower(value);
  return {};
}

/// Sets `to` to the meaning of a word, in any case. Returns what is wrong; empty: nothing.
template <class T>
std::string take_word(T& to, const service::Given& given, const char* one, T is_one, const char* other, T is_other) {
  if (!iequals(given.value, one) && !iequals(given.value, other))
    return given.name + ": " + one + " or " + other + ", not " + readable(given.value);
  to = iequals(given.value, one) ? is_one : is_other;
  return {};
}

/// Options that do not go together, as Postfix refuses them; and what it would take for a message without sending it.
/// Returns what is wrong with them; empty: nothing.
std::string fault_of(const SendmailOptions& v) {
  const bool flushes_some = !v.flush_id.empty() || !v.flush_site.empty();
  const bool sends = v.mode == 'm' && !flushes_some && !v.interval;
  const std::string of_another = ": not with -b or -q of another task";
  if (v.reading.header_recipients && !sends) return "-t" + of_another;
  if (flushes_some && v.mode != 'm') return (v.flush_id.empty() ? "-qR" : "-qI") + of_another;
  if (!v.words.empty() && v.mode == 's') return "-bs takes the recipients from RCPT commands: none on the command line";
  if (!v.words.empty() && !sends) return "recipients" + of_another;
  if (v.mail.purpose != mail::Purpose::probe) return {};
  if (v.reading.header_recipients) return "-bv reads no message: give the addresses on the command line, not -t";
  const char* of_mail = v.reading.notify != 0                  ? "-N"
                        : v.mail.ret != mail::Ret::unspecified ? "-R"
                        : v.verbose                            ? "-v"
                                                               : nullptr;
  if (of_mail == nullptr) return {};
  return std::string("-bv ends in one report to the sender: not with ") + of_mail;
}

using service::Given;
using Take = std::function<std::string(const Given&)>;

/// For an option that cannot be wrong.
template <class Act>
Take doing(Act act) {
  return [act](const Given& given) {
    act(given.value);
    return std::string();
  };
}

std::vector<service::Option> table(SendmailOptions& v) {
  using service::accepted;
  using service::set;
  const Take sender = doing([&v](const std::string& value) { v.sender = value; });
  const Take mode = doing([&v](const std::string& value) { take_mode(v, value.c_str()[0]); });
  const Take config_directory = doing([&v](const std::string& value) {
    v.config_directory = value.ends_with(".cf") ? std::filesystem::path(value).parent_path().string() : value;
  });
  const Take other = doing([&v](const std::string& value) {
    if (value.starts_with('i')) v.reading.dot_ends = false;
    if (value.starts_with('A')) v.alias_file = value.substr(1);
  });
  const Take body_type = [&v](const Given& given) {
    return take_word(v.mail.body_type, given, "7BIT", mail::BodyType::seven_bit, "8BITMIME",
                     mail::BodyType::eight_bit_mime);
  };
  const Take ret = [&v](const Given& given) {
    const auto fault = take_word(v.mail.ret, given, "full", mail::Ret::full, "hdrs", mail::Ret::headers);
    return fault.empty() ? fault : pass_over(fault);
  };
  const Take transcript = [&v](const Given& given) -> std::string {
    if (!given.value.starts_with('V')) return {};
    v.verp = given.value.substr(1);
    return {};
  };
  return {{"-f, -r ADDR", "envelope sender; default: the user", sender},
          {"-F NAME", "full name for a From: that is missing; empty: none",
           doing([&v](const std::string& value) { v.full_name = value; })},
          {"-i", "a line of one dot does not end the message", set(v.reading.dot_ends, false)},
          {"-oi", "the same"},
          {"-t", "recipients from the header; Bcc: is removed", set(v.reading.header_recipients)},
          {"-N LIST", "notices: never, or some of success,failure,delay",
           [&v](const Given& given) { return take_notify(v, given.value); }},
          {"-R full|hdrs", "what a notice of failure returns", ret},
          {"-V ID", "envelope id for notices; two of -=+: as -XV",
           [&v](const Given& given) { return take_envid(v, given.value); }},
          {"-O requiretls=yes|no", "every host on the way must offer REQUIRETLS",
           [&v](const Given& given) { return take_named_option(v, given.value); }},
          {"-O smtputf8=yes|no", "the message is declared as one with addresses or a header in UTF-8"},
          {"-XV[XY]", "each recipient gets the message from an address that names him (VERP), by the delimiters X, Y"},
          {"-G", "from elsewhere: nothing is added to the header, nor rewritten in it", set(v.mail.gateway)},
          {"-B 7BIT|8BITMIME", "body type", body_type},
          {"-C DIR", "the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)", config_directory},
          {"-b TASK", "another task than to submit a message:", mode},
          {"-bp", "list the queue (mailq)"},
          {"-bi", "make the tables of alias_database (newaliases)"},
          {"-bd, -bl", "start the mail system (penstock start)"},
          {"-bh, -bH", "nothing"},
          {"-bs", "speak SMTP on standard input and output"},
          {"-bv", "report to the sender what would come of mail to the recipients"},
          {"-bm", "submit a message, as without"},
          {"-I", "as -bi", doing([&v](const std::string&) { take_mode(v, 'i'); })},
          {"-oA TABLE", "with -bi, -I: that table alone"},
          {"-q[WHAT]", "try every deferred message now; -qI ID one; -qR SITE those for a domain; -qTIME nothing",
           [&v](const Given& given) { return take_queue_option(v, given.value); }},
          {"-v", "print the queue id; report to the sender by mail how the first try went", set(v.verbose)},
          {"", "Taken, and change nothing:"},
          {"-c, -m, -n, -U, -x", "", accepted()},
          {"-A, -e, -h, -L, -p VALUE", "", accepted()},
          {"-d[VALUE]", "", accepted()},
          {"-o NAME[=VALUE]", "other than -oi and -oA; also other -O", other},
          {"-X FILE", "but -XV", transcript}};
}

}  // namespace

std::expected<SendmailOptions, service::Ending> SendmailOptions::read(int argc, const char* const* argv) {
  SendmailOptions v;
  const char* slash = argc > 0 ? std::strrchr(argv[0], '/') : nullptr;
  const std::string name = argc > 0 ? (slash != nullptr ? slash + 1 : argv[0]) : "sendmail";
  if (name == "newaliases") v.mode = 'i';
  if (name == "mailq") v.mode = 'p';
  const service::CommandLine line{
      .program = name,
      .usage = {"sendmail [OPTION ...] RECIPIENT ...", "sendmail [OPTION ...] -t [RECIPIENT ...]",
                "sendmail -bv [OPTION ...] RECIPIENT ...", "sendmail -bs",
                "sendmail -bp | -bi | -bd | -q | -qI ID | -qR SITE", "newaliases"},
      .about = "Submits the message on standard input to the recipients; with -t also to whom To:, Cc: and Bcc: name.",
      .options = table(v),
      .options_end_at_a_word = true};
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  v.words = *std::move(words);
  if (const std::string fault = fault_of(v); !fault.empty()) return std::unexpected(line.misuse(fault));
  return v;
}

}  // namespace pen::tools
