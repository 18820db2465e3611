#include "penapi/mail_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/base64.h"
#include "lib/base/text.h"

namespace pen::api {
namespace {

using nlohmann::json;

/// Puts what the parser finds where it belongs. Each place knows what may stand there.
class Reader final : public nlohmann::json_sax<json> {
 public:
  explicit Reader(MailRequest& out) : out_(out) {}
  std::optional<Refusal> refusal;

  bool null() override { return no("null"); }
  bool boolean(bool) override { return no("true or false"); }
  bool number_integer(number_integer_t) override { return no("a number"); }
  bool number_unsigned(number_unsigned_t) override { return no("a number"); }
  bool number_float(number_float_t, const string_t&) override { return no("a number"); }
  bool binary(binary_t&) override { return no("binary data"); }

  bool string(string_t& value) override {
    switch (place_) {
      case Place::top:
        return top_text(std::move(value));
      case Place::list:
        if (list_->size() == kMaxAddresses) return refuse(fmt::format("\"{}\" has too many addresses", key_));
        list_->push_back(std::move(value));
        return true;
      case Place::headers:
        if (out_.headers.size() == kMaxHeaders) return refuse("\"headers\" has too many fields");
        out_.headers.emplace_back(std::move(inner_), std::move(value));
        return true;
      case Place::attachment:
        return attachment_text(std::move(value));
      case Place::outside:
      case Place::attachments:
        break;
    }
    return no("a text");
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside && !begun_) {
      begun_ = true;
      place_ = Place::top;
      return true;
    }
    if (place_ == Place::top && key_ == "headers") {
      place_ = Place::headers;
      return true;
    }
    if (place_ == Place::attachments) {
      if (out_.attachments.size() == kMaxAttachments) return refuse("there are too many attachments");
      place_ = Place::attachment;
      out_.attachments.emplace_back();
      seen_inner_.clear();
      return true;
    }
    return no("an object");
  }
  bool end_object() override {
    if (place_ == Place::attachment && !contains(seen_inner_, "content"))
      return refuse("an attachment has no \"content\"");
    place_ = place_ == Place::attachment ? Place::attachments : place_ == Place::headers ? Place::top : Place::outside;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::top) return no("a list");
    list_ = list_of(key_);
    if (list_ != nullptr) {
      place_ = Place::list;
      return true;
    }
    if (key_ != "attachments") return no("a list");
    place_ = Place::attachments;
    return true;
  }
  bool end_array() override {
    place_ = Place::top;
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::top) {
      if (contains(seen_, name)) return refuse(fmt::format("\"{}\" stands twice", printable(name, 100)));
      if (!is_known(name))
        return refuse(fmt::format("\"{}\" is not known: see docs/http-submission.md", printable(name, 100)));
      seen_.push_back(name);
      key_ = std::move(name);
    } else if (place_ == Place::headers) {
      inner_ = std::move(name);
    } else {
      if (contains(seen_inner_, name))
        return refuse(fmt::format("an attachment has \"{}\" twice", printable(name, 100)));
      seen_inner_.push_back(name);
      inner_ = std::move(name);
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    refusal = Refusal{400, fmt::format("the body is no JSON: at byte {}", position)};
    return false;
  }

 private:
  enum class Place : std::uint8_t { outside, top, list, headers, attachments, attachment };

  static bool contains(const std::vector<std::string>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  }
  bool refuse(std::string text) {
    refusal = Refusal{422, std::move(text)};
    return false;
  }
  /// What stands here has another kind than what may stand here.
  bool no(std::string_view kind) {
    if (place_ == Place::outside) return refuse("the body is no object");
    const bool within = place_ == Place::headers || place_ == Place::attachment;
    return refuse(fmt::format("\"{}\" may not be {}", printable(within ? inner_ : key_, 100), kind));
  }
  std::vector<std::string>* list_of(std::string_view name) {
    if (name == "to") return &out_.to;
    if (name == "cc") return &out_.cc;
    if (name == "bcc") return &out_.bcc;
    if (name == "reply_to") return &out_.reply_to;
    if (name == "recipients") return &out_.recipients;
    return nullptr;
  }
  static bool is_known(std::string_view name) {
    static constexpr std::string_view kNames[] = {"from", "subject",  "to",         "cc",
                                                  "bcc",  "reply_to", "recipients", "envelope_from",
                                                  "text", "html",     "headers",    "attachments"};
    return std::ranges::find(kNames, name) != std::end(kNames);
  }
  bool top_text(std::string value) {
    if (auto* list = list_of(key_)) {  // one address may stand without its list
      list->push_back(std::move(value));
      return true;
    }
    if (key_ == "from")
      out_.from = std::move(value);
    else if (key_ == "subject")
      out_.subject = std::move(value);
    else if (key_ == "envelope_from")
      out_.envelope_from = std::move(value);
    else if (key_ == "text")
      out_.text = std::move(value);
    else if (key_ == "html")
      out_.html = std::move(value);
    else
      return no("a text");
    return true;
  }
  bool attachment_text(std::string value) {
    Attachment& a = out_.attachments.back();
    if (inner_ == "name") {
      a.name = std::move(value);
    } else if (inner_ == "type") {
      a.type = std::move(value);
    } else if (inner_ == "cid") {
      a.cid = std::move(value);
    } else if (inner_ == "content") {
      auto decoded = base64_decode(value);
      if (!decoded) return refuse("the content of an attachment is no base 64");
      a.content = *std::move(decoded);
    } else {
      return refuse(fmt::format("an attachment has no \"{}\"", printable(inner_, 100)));
    }
    return true;
  }

  MailRequest& out_;
  Place place_ = Place::outside;
  bool begun_ = false;
  std::string key_, inner_;  // of the object of the request, and of the one in it
  std::vector<std::string> seen_, seen_inner_;
  std::vector<std::string>* list_ = nullptr;
};

}  // namespace

std::expected<MailRequest, Refusal> parse_mail_request(std::string_view body) {
  MailRequest out;
  Reader reader(out);
  const bool whole = json::sax_parse(body.begin(), body.end(), &reader);
  if (reader.refusal) return std::unexpected(*std::move(reader.refusal));
  if (!whole) return std::unexpected(Refusal{400, "the body is no JSON"});
  return out;
}

}  // namespace pen::api
