#include "lib/receive/intake/checks.h"

#include <algorithm>

#include "lib/base/text.h"
#include "lib/mail/charset.h"
#include "lib/mail/header.h"
#include "lib/mail/logged.h"
#include "lib/mail/mime.h"
#include "lib/mail/reply.h"
#include "lib/map/pattern.h"

namespace pen::intake {
namespace {

constexpr std::size_t kShown = 200;  // bytes of a line in the log

Result<map::MapList> open_maps(const CheckTables::Specs& specs, std::string_view name, const std::string& value) {
  const std::string setting = specs.prefix + std::string(name);
  auto maps = map::MapList::open(value, specs.open.setting.empty() ? specs.open.of(setting) : specs.open);
  if (!maps) return fail(std::move(maps).error().within(setting));
  for (const auto& table : maps->maps())
    if (table->blocking()) return fail(CheckError::may_wait, setting + ": " + table->name());
  return maps;
}

/// Makes the text of an action one line, whatever the table holds.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(line, [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  return line;
}

/// The key for tables: the text without NUL and without blanks before a field's colon, because both could hide text
/// behind them from a pattern. Empty: the key is the text itself.
std::string look_up_key(const std::string& text, bool in_header) {
  const auto name = in_header ? mail::field_name_length(text) : 0;
  const bool blanks = name > 0 && text[name] != ':';
  if (!blanks && text.find('\0') == std::string::npos) return {};
  std::string key = text;
  if (blanks) key.erase(name, key.find(':', name) - name);
  std::ranges::replace(key, '\0', ' ');
  return key;
}

}  // namespace

std::string field_lines(std::string_view text, std::string_view eol) {
  std::string field;
  for (std::size_t at = 0;;) {
    const auto lf = text.find('\n', at);
    field += one_line(text.substr(at, lf - at));
    if (lf == std::string_view::npos) return field;
    at = lf + 1;
    const bool folded = at < text.size() && (text[at] == ' ' || text[at] == '\t');
    field += folded ? eol : " ";
  }
}

std::string_view error_module(CheckError) { return "content checks"; }
std::string_view describe(CheckError) { return "a table that asks another process cannot be used for content checks"; }

Result<std::shared_ptr<const CheckTables>> CheckTables::open(const Specs& specs) {
  auto tables = std::make_shared<CheckTables>();
  PEN_TRY_ASSIGN(tables->header, open_maps(specs, "header_checks", specs.header));
  PEN_TRY_ASSIGN(tables->mime, open_maps(specs, "mime_header_checks", specs.mime));
  PEN_TRY_ASSIGN(tables->nested, open_maps(specs, "nested_header_checks", specs.nested));
  PEN_TRY_ASSIGN(tables->body, open_maps(specs, "body_checks", specs.body));
  const auto read = [&](Characters& into, const char* name, const std::string& value) -> Result<void> {
    auto set = parse_characters(value);
    if (!set) return fail(std::move(set).error().within(specs.prefix + name));
    into = *set;
    return {};
  };
  PEN_TRY(read(tables->strip, "message_strip_characters", specs.strip));
  PEN_TRY(read(tables->reject, "message_reject_characters", specs.reject));
  if (specs.walk.mime) tables->strict = specs.strict;
  const bool strict = tables->strict.any();
  const bool fields = !tables->mime.empty() || !tables->nested.empty();
  if (!fields && tables->header.empty() && tables->body.empty() && !strict && !tables->raw()) return nullptr;
  tables->prefix = specs.prefix;
  tables->body_size_limit = specs.body_size_limit;
  tables->walk = specs.walk;
  tables->clock = specs.open.clock;
  tables->walk.lines = !tables->body.empty();
  // Body checks need to know where parts begin: their size limit is for each part.
  tables->walk.mime = specs.walk.mime && (fields || strict || !tables->body.empty());
  return tables;
}

std::vector<Error> CheckTables::problems() const {
  std::vector<Error> all;
  for (const auto* maps : {&header, &mime, &nested, &body})
    for (auto& problem : maps->problems()) all.push_back(std::move(problem));
  return all;
}

std::string CheckTables::slower_because() const {
  for (const auto* maps : {&header, &mime, &nested, &body})
    for (const auto& table : maps->maps())
      if (const auto why = map::why_pcre_is_interpreted(); why && table->name().find("pcre:") != std::string::npos)
        return "pcre tables of content checks are several times slower than they could be: " + *why;
  return {};
}

bool Checks::field(mail::MimeWalker::Header header, std::string& text, std::string& before) {
  using Header = mail::MimeWalker::Header;
  if (!looking_) return true;
  const auto name = std::string_view(text).substr(0, mail::field_name_length(text));
  if (header == Header::part || mail::field_use(name) == mail::FieldUse::mime)
    return act(tables_->mime, "mime_header_checks", true, text, before);
  if (header == Header::inner) return act(tables_->nested, "nested_header_checks", true, text, before);
  return act(tables_->header, "header_checks", true, text, before);
}

bool Checks::body(std::string& text, std::uint64_t offset, std::string& before) {
  const bool within = tables_->body_size_limit == 0 || offset < tables_->body_size_limit;
  if (!looking_ || !within) return true;
  return act(tables_->body, "body_checks", false, text, before);
}

void Checks::note(std::string_view action, std::string_view where, std::string_view line, std::string_view text) const {
  const std::string shown = printable(line.substr(0, kShown), kShown);
  reporter_.note({.action = action, .where = where, .content = shown, .text = text});
}

void Checks::warn(std::string_view setting, std::string_view what) const {
  reporter_.warn(tables_->prefix + std::string(setting) + ": " + std::string(what));
}

void Checks::fail_with(std::string_view setting, std::string_view what) {
  failed_ = tables_->prefix + std::string(setting) + ": " + std::string(what);
  looking_ = false;
}

std::optional<std::string> Checks::look_up(const map::MapList& maps, std::string_view setting, std::string_view key) {
  if (slow_time_ > kMaxSlowTime) {
    fail_with(setting, "matching takes too long");
    return std::nullopt;
  }
  const auto start = tables_->clock->now();
  auto found = maps.lookup(key);
  const auto spent = tables_->clock->now() - start;
  if (spent > kFairLookup) slow_time_ += spent - kFairLookup;
  if (found) return *std::move(found);
  fail_with(setting, found.error().message());
  return std::nullopt;
}

bool Checks::act(const map::MapList& maps, std::string_view setting, bool in_header, std::string& text,
                 std::string& before) {
  if (maps.empty() || text.empty()) return true;
  const std::string key = look_up_key(text, in_header);
  const auto found = look_up(maps, setting, key.empty() ? text : key);
  if (!found) return true;
  const std::string_view value = trim(*found);
  const auto space = std::min(value.find_first_of(" \t"), value.size());
  const std::string_view word = value.substr(0, space);
  const std::string_view argument = trim(value.substr(space));
  const std::string_view where = in_header ? "header" : "body";
  const auto is = [&](std::string_view action) { return iequals(word, action); };

  if (is("DUNNO") || is("OK")) return true;
  if (is("IGNORE")) return false;
  if (is("STRIP")) {
    note("strip", where, text, argument);
    return false;
  }
  if (is("WARN") || is("INFO")) {
    note(is("WARN") ? "warning" : "info", where, text, argument);
    return true;
  }
  if (is("PREPEND") || is("REPLACE")) {
    const bool replace = is("REPLACE");
    if (argument.empty()) {
      warn(setting, std::string(replace ? "REPLACE" : "PREPEND") + " without text");
    } else if (in_header && mail::field_name_length(argument) == 0) {
      warn(setting, std::string(replace ? "REPLACE" : "PREPEND") + " in a header needs \"name: value\", not \"" +
                        printable(argument, kShown) + "\"");
    } else {
      note(replace ? "replace" : "prepend", where, text, argument);
      const auto lines = [&](std::string_view eol) {
        return in_header ? field_lines(argument, eol) : one_line(argument);
      };
      if (replace)
        text = lines("\n");
      else
        before += lines("\r\n") + "\r\n";
    }
    return true;
  }
  if (side_ == Side::receiving && receiving(word, argument, setting, where, text)) return true;
  warn(setting, "no action that can be done here: " + printable(word, kShown));
  return true;
}

bool Checks::receiving(std::string_view word, std::string_view argument, std::string_view setting,
                       std::string_view where, const std::string& line) {
  const auto is = [&](std::string_view action) { return iequals(word, action); };
  const bool address = argument.find('@') != std::string_view::npos;
  if (is("REJECT")) {
    const auto code = mail::enhanced_code(argument);
    if (argument.empty()) {
      refusal_ = "5.7.1 message content rejected";
    } else if (!code) {
      refusal_ = "5.7.1 " + one_line(argument);
    } else {
      refusal_ = one_line(argument);
      if (code->size() == argument.size()) refusal_ += " message content rejected";
      if (code->front() == '2') {
        warn(setting, "REJECT needs a status 4.x.x or 5.x.x, not " + std::string(*code));
        refusal_.front() = '4';
      }
    }
    looking_ = false;
    note("reject", where, line, refusal_);
  } else if (is("DISCARD")) {
    effects_.discard = true;
    looking_ = false;
    note("discard", where, line, argument);
  } else if (is("PASS")) {
    looking_ = false;
    note("pass", where, line, argument);
  } else if (is("HOLD")) {
    if (!effects_.hold) note("hold", where, line, argument);
    effects_.hold = true;
  } else if (is("FILTER")) {
    if (argument.find(':') == std::string_view::npos) {
      warn(setting, "FILTER needs transport:destination, not \"" + printable(argument, kShown) + "\"");
    } else {
      effects_.filter = one_line(argument);
      note("filter", where, line, argument);
    }
  } else if (is("REDIRECT")) {
    if (!address) {
      warn(setting, "REDIRECT needs user@domain, not \"" + printable(argument, kShown) + "\"");
    } else {
      effects_.redirect = one_line(argument);
      looking_ = false;
      note("redirect", where, line, argument);
    }
  } else if (is("BCC")) {
    if (!address) {
      warn(setting, "BCC needs user@domain, not \"" + printable(argument, kShown) + "\"");
    } else if (std::string copy = one_line(argument); std::ranges::find(effects_.bcc, copy) == effects_.bcc.end()) {
      if (effects_.bcc.size() >= kMaxCopies) {
        fail_with(setting, "too many BCC addresses");
      } else {
        effects_.bcc.push_back(std::move(copy));
        note("bcc", where, line, argument);
      }
    }
  } else {
    return false;
  }
  return true;
}

void Checks::refuse(std::string_view kind, std::string_view what, std::string_view content) {
  if (!looking_) return;
  refusal_ = "5.6.0 " + std::string(what);
  looking_ = false;
  const std::string shown = content.empty() ? std::string(what) : std::string(what) + ": " + std::string(content);
  note("reject", kind, shown, refusal_);
}

void Checks::refuse_nesting() { refuse("mime-error", "MIME nesting exceeds safety limit", {}); }

std::string_view Checks::characters(std::string_view part, std::string& spare) {
  const auto in = [](const Characters& set) { return [&set](char c) { return set[static_cast<unsigned char>(c)]; }; };
  if (tables_->reject.any() && std::ranges::any_of(part, in(tables_->reject))) {
    if (looking_) {  // the log shows what is known of the line
      refusal_ = "5.7.1 disallowed character";
      looking_ = false;
      note("reject", "character", part, refusal_);
    }
    return part;
  }
  if (!tables_->strip.any() || std::ranges::none_of(part, in(tables_->strip))) return part;
  spare = part;
  std::erase_if(spare, in(tables_->strip));
  return spare;
}

void Checks::strict_field(std::string_view field) {
  if (!looking_ || !tables_->strict.any()) return;
  const auto n = mail::field_name_length(field);
  const auto name = field.substr(0, n);
  const auto word = [&] { return mail::mime_word(mail::unfold(field.substr(field.find(':', n) + 1))); };
  if (iequals(name, "Content-Type")) type_ = word();
  if (iequals(name, "Content-Transfer-Encoding")) encoding_ = word();
  strict_more(field);
}

void Checks::strict_more(std::string_view text) {
  if (looking_ && tables_->strict.header && !mail::all_ascii(text))
    refuse("mime-error", "8-bit text in a message header", text);
}

void Checks::strict_header_end() {
  if (!looking_ || !tables_->strict.any()) return;
  const bool eight_bit = encoding_ == "8bit" || encoding_ == "binary";
  const bool encoded = encoding_ == "base64" || encoding_ == "quoted-printable";
  // RFC 2045 section 6.4, RFC 2046 sections 5.2.2 and 5.2.3; a message/global may be encoded (RFC 6532 section 3.5).
  const bool seven_bit_only = type_ == "message/partial" || type_ == "message/external-body";
  const bool wrong =
      seven_bit_only ? eight_bit : encoded && (type_.starts_with("multipart/") || type_ == "message/rfc822");
  if (tables_->strict.encoding && wrong)
    refuse("mime-error", "a part of this type cannot have this encoding", type_ + " " + encoding_);
  body_is_7bit_ = !eight_bit && !encoded;
  type_.clear();
  encoding_.clear();
}

void Checks::strict_body(std::string_view text) {
  if (watches_body() && !mail::all_ascii(text))
    refuse("mime-error", "8-bit text in a message body that is not labelled so", text);
}

std::string note_line(const NoteOrigin& from, const Checks::Note& note) {
  std::string line;
  const auto add = [&](std::initializer_list<std::string_view> parts) {
    for (const auto part : parts) line += part;
  };
  add({from.queue_id, ": ", note.action, ": ", note.where, " ", note.content, " from ", from.origin, ";"});
  add({" from=<", mail::logged(from.sender), ">"});
  if (!from.recipient.empty()) add({" to=<", mail::logged(from.recipient), ">"});
  if (!from.proto.empty()) add({" proto=", from.proto});
  if (!from.helo.empty()) add({" helo=<", from.helo, ">"});
  if (!note.text.empty()) add({": ", note.text});
  return line;
}

}  // namespace pen::intake
