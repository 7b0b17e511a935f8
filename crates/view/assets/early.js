// Runs before the page is shown: collects errors, and sets the theme so that nothing flashes.
'use strict';
document.documentElement.classList.add('script');
{
  const errors = [];
  const note = (text) => {
    errors.push(text);
    if (document.body) document.body.dataset.errors = errors.join('; ');
  };
  addEventListener('error', (event) => note(event.message || 'error'));
  addEventListener('unhandledrejection', (event) => note(String(event.reason)));
  addEventListener('securitypolicyviolation', (event) => note(`refused: ${event.blockedURI}`));

  // By ?theme=dark in the address, or by the switch on an earlier visit. Without one the system's preference holds.
  const asked = new URLSearchParams(location.search).get('theme');
  let theme = asked;
  try {
    theme ??= localStorage.getItem('flashlab-theme');
  } catch {
    // A browser may refuse storage.
  }
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
}
