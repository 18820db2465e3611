#include "tools/template_listing.h"

#include <sysexits.h>

#include <string>
#include <string_view>
#include <utility>

#include "lib/meaning/bounce/from_config.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

/// The word that ends the text: none of its lines.
std::string end_of(const std::string& text) {
  std::string word = "EOF";
  while (("\n" + text).contains("\n" + word + "\n")) word += "F";
  return word;
}

std::string written(const mail::NoticeTemplate& t, const std::string& from) {
  std::string text =
      "Charset: " + t.charset + "\nFrom: " + (t.from.empty() ? from : t.from) + "\nSubject: " + t.subject + "\n";
  if (!t.postmaster_subject.empty()) text += "Postmaster-Subject: " + t.postmaster_subject + "\n";
  return text + "\n" + t.text;
}

}  // namespace

int show_templates(const config::Config& config, Texts texts) {
  const bool expanded = texts == Texts::expanded;
  const auto all = expanded ? bounce::templates_from(config) : bounce::written_templates(config);
  if (!all) die("penconf", EX_CONFIG, all.error().message());
  const std::string from = bounce::notice_form(config).settings.from;
  const std::pair<std::string_view, const mail::NoticeTemplate*> kinds[] = {
      {"failure", &all->failure}, {"delay", &all->delay}, {"success", &all->success}, {"verify", &all->verify}};
  std::string out;
  for (const auto& [name, t] : kinds) {
    const std::string text = expanded ? t->text : written(*t, from);
    const std::string end = end_of(text);
    if (!out.empty()) out += "\n";
    out += (expanded ? "expanded_" : "") + std::string(name) + (expanded ? "_text" : "_template") + " = <<" + end +
           "\n" + text + end + "\n";
  }
  print(out);
  return EX_OK;
}

}  // namespace pen::tools
