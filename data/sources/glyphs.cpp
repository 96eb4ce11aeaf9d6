#include "troupe/data/sources/glyphs.hpp"

#include <array>

namespace troupe::data {

namespace {

using ways = std::vector<glyph>;

const ways& zero() {
  static const ways variants{
    {{{.04f, -.5f},
      {-.2f, -.38f},
      {-.3f, 0},
      {-.2f, .38f},
      {.02f, .5f},
      {.23f, .36f},
      {.3f, 0},
      {.2f, -.4f},
      {.0f, -.49f}}},
    {{{.12f, -.44f},
      {-.12f, -.46f},
      {-.27f, -.15f},
      {-.24f, .3f},
      {0, .5f},
      {.22f, .3f},
      {.26f, -.15f},
      {.1f, -.46f},
      {-.06f, -.4f}}},
  };
  return variants;
}

const ways& one() {
  static const ways variants{
    {{{.02f, -.5f}, {0, 0}, {-.02f, .5f}}},
    {{{-.2f, -.28f},
      {-.06f, -.38f},
      {.04f, -.5f},
      {.04f, -.5f},
      {.03f, 0},
      {.02f, .5f}}},
    {{{-.18f, -.32f}, {.02f, -.5f}, {.02f, -.5f}, {.01f, 0}, {0, .48f}},
     {{-.2f, .49f}, {0, .48f}, {.2f, .49f}}},
  };
  return variants;
}

const ways& two() {
  static const ways variants{
    {{{-.28f, -.3f},
      {-.08f, -.5f},
      {.22f, -.38f},
      {.18f, -.05f},
      {-.08f, .25f},
      {-.3f, .48f},
      {-.3f, .48f},
      {.02f, .45f},
      {.32f, .47f}}},
    {{{-.26f, -.34f},
      {.02f, -.5f},
      {.24f, -.3f},
      {.1f, .05f},
      {-.14f, .36f},
      {-.3f, .42f},
      {-.24f, .28f},
      {-.06f, .36f},
      {.14f, .49f},
      {.32f, .4f}}},
  };
  return variants;
}

const ways& three() {
  static const ways variants{
    {{{-.26f, -.4f},
      {0, -.5f},
      {.24f, -.34f},
      {.14f, -.08f},
      {-.08f, -.01f},
      {-.08f, -.01f},
      {.2f, .06f},
      {.27f, .3f},
      {.04f, .5f},
      {-.28f, .4f}}},
    {{{-.26f, -.47f},
      {0, -.48f},
      {.24f, -.48f},
      {.24f, -.48f},
      {.1f, -.28f},
      {-.04f, -.08f},
      {-.04f, -.08f},
      {.2f, .02f},
      {.25f, .28f},
      {.02f, .49f},
      {-.28f, .38f}}},
  };
  return variants;
}

const ways& four() {
  static const ways variants{
    {{{-.18f, -.5f},
      {-.24f, -.2f},
      {-.28f, .06f},
      {-.28f, .06f},
      {0, .06f},
      {.3f, .03f}},
     {{.16f, -.42f}, {.13f, 0}, {.1f, .5f}}},
    {{{.12f, -.5f},
      {-.1f, -.16f},
      {-.32f, .16f},
      {-.32f, .16f},
      {0, .16f},
      {.3f, .14f}},
     {{.12f, -.5f}, {.12f, 0}, {.1f, .5f}}},
  };
  return variants;
}

const ways& five() {
  static const ways variants{
    {{{.27f, -.49f},
      {0, -.47f},
      {-.2f, -.48f},
      {-.2f, -.48f},
      {-.22f, -.28f},
      {-.25f, -.07f},
      {-.25f, -.07f},
      {.02f, -.15f},
      {.27f, .08f},
      {.16f, .42f},
      {-.08f, .5f},
      {-.28f, .38f}}},
    {{{-.16f, -.46f},
      {-.2f, -.25f},
      {-.22f, -.05f},
      {.06f, -.12f},
      {.25f, .12f},
      {.12f, .44f},
      {-.14f, .5f},
      {-.28f, .4f}},
     {{-.16f, -.46f}, {.06f, -.49f}, {.3f, -.5f}}},
  };
  return variants;
}

const ways& six() {
  static const ways variants{
    {{{.18f, -.48f},
      {-.1f, -.28f},
      {-.26f, .1f},
      {-.18f, .42f},
      {.06f, .5f},
      {.25f, .28f},
      {.12f, .05f},
      {-.1f, .08f},
      {-.24f, .27f}}},
    {{{.06f, -.5f},
      {-.14f, -.2f},
      {-.22f, .18f},
      {-.1f, .46f},
      {.14f, .44f},
      {.2f, .2f},
      {.02f, .08f},
      {-.18f, .26f}}},
  };
  return variants;
}

const ways& seven() {
  static const ways variants{
    {{{-.28f, -.46f},
      {0, -.48f},
      {.28f, -.48f},
      {.28f, -.48f},
      {.1f, -.02f},
      {-.06f, .5f}}},
    {{{-.28f, -.44f},
      {0, -.46f},
      {.28f, -.48f},
      {.28f, -.48f},
      {.1f, -.05f},
      {0, .5f}},
     {{-.12f, .03f}, {.06f, 0}, {.24f, .01f}}},
    {{{-.28f, -.3f},
      {-.26f, -.46f},
      {-.26f, -.46f},
      {.02f, -.44f},
      {.27f, -.46f},
      {.27f, -.46f},
      {.06f, 0},
      {.02f, .5f}}},
  };
  return variants;
}

const ways& eight() {
  static const ways variants{
    {{{.2f, -.36f},
      {0, -.5f},
      {-.2f, -.34f},
      {-.08f, -.1f},
      {.14f, .08f},
      {.24f, .3f},
      {0, .5f},
      {-.24f, .3f},
      {-.12f, .06f},
      {.12f, -.12f},
      {.21f, -.32f},
      {.12f, -.46f}}},
    {{{0, -.04f},
      {-.2f, -.24f},
      {0, -.5f},
      {.2f, -.26f},
      {0, -.04f},
      {-.24f, .22f},
      {0, .5f},
      {.24f, .24f},
      {.02f, -.03f}}},
  };
  return variants;
}

const ways& nine() {
  static const ways variants{
    {{{.22f, -.32f},
      {0, -.5f},
      {-.24f, -.28f},
      {-.06f, -.03f},
      {.18f, -.14f},
      {.22f, -.34f},
      {.22f, -.34f},
      {.2f, .08f},
      {.12f, .5f}}},
    {{{.2f, -.34f},
      {-.02f, -.5f},
      {-.22f, -.26f},
      {-.04f, -.06f},
      {.18f, -.2f},
      {.22f, -.36f},
      {.22f, -.36f},
      {.24f, .1f},
      {.06f, .48f},
      {-.2f, .42f}}},
  };
  return variants;
}

} // namespace

const std::vector<glyph>& glyphs(int digit) {
  static const std::array all{zero(), one(), two(),   three(), four(),
                              five(), six(), seven(), eight(), nine()};
  return all[static_cast<std::size_t>(digit)];
}

} // namespace troupe::data
